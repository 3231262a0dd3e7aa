// Every claim is proved by evidence made from theory, and refuted, alone, by the same evidence with one field
// changed.
#include "harness/claim/claims.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "correctness/claim/lies.hpp"
#include "correctness/claim/made_evidence.hpp"
#include "harness/theory/stages.hpp"

namespace zp {
namespace {

using Ranks = std::vector<StepEvidence>;

Verdict judge(Claim claim, const MadeRun& run) {
  switch (claim) {
    case Claim::bits: return judge_bits(run.facts, run.reference, run.ranks);
    case Claim::bytes: return judge_bytes(run.facts, run.ranks);
    case Claim::memory: return judge_memory(run.facts, run.ranks);
    case Claim::work: return judge_work(run.facts, run.ranks);
  }
  return {};
}

std::string name_of_stage(const theory::Stage& stage) {
  std::string name(stage.name);
  std::ranges::replace(name, '-', '_');
  return name;
}

class EveryStage : public testing::TestWithParam<theory::Stage> {};

INSTANTIATE_TEST_SUITE_P(Claims, EveryStage, testing::ValuesIn(theory::kStages),
                         [](const auto& info) { return name_of_stage(info.param); });

TEST_P(EveryStage, IsProvedByEvidenceThatAgreesWithTheory) {
  for (int world = 1; world <= 8; ++world) {
    for (const int micro_steps : {1, 2, 3, 5}) {
      const bool power_of_two = std::has_single_bit(static_cast<unsigned>(world));
      const Recipe& recipe = kRecipes[static_cast<size_t>(world + micro_steps) % kRecipes.size()];
      const MadeRun run(GetParam(), world, micro_steps, power_of_two ? Algorithm::halving : Algorithm::direct,
                        recipe, kMethods[static_cast<size_t>(world / 2 % 2)]);
      for (const Claim claim : kClaims) {
        const Verdict verdict = judge(claim, run);
        EXPECT_TRUE(verdict.holds()) << name_of(claim) << ", N " << world << ", A " << micro_steps << ": "
                                     << (verdict.evidence.empty() ? "" : verdict.evidence.front());
        EXPECT_EQ(verdict.claim, claim);
        EXPECT_TRUE(verdict.evidence.empty());
      }
      EXPECT_FALSE(first_suspect(run.facts, run.reference, run.ranks).found);
    }
  }
}

class EveryLie : public testing::TestWithParam<Lie> {};

INSTANTIATE_TEST_SUITE_P(Claims, EveryLie, testing::ValuesIn(all_lies()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EveryLie, IsRefutedByTheClaimThatItOffendsAndByNoOther) {
  for (const theory::Stage& stage : theory::kStages) {
    MadeRun run(stage, 4, 2, Algorithm::direct);
    GetParam().tell(run.ranks[1]);
    for (const Claim claim : kClaims) {
      const Verdict verdict = judge(claim, run);
      if (claim != GetParam().claim) {
        EXPECT_TRUE(verdict.holds()) << stage.name << ", " << name_of(claim);
        continue;
      }
      ASSERT_EQ(verdict.finding, Finding::refuted) << stage.name;
      ASSERT_FALSE(verdict.evidence.empty());
      EXPECT_LE(verdict.evidence.size(), 6U);
      for (const std::string& line : verdict.evidence) EXPECT_LE(line.size(), 200U);
      const std::string& first = verdict.evidence.front();
      EXPECT_NE(first.find(GetParam().found), std::string::npos) << first;
      EXPECT_TRUE(first.starts_with("step 2, " + std::string(stage.name) + ", ")) << first;
    }
  }
}

TEST_P(EveryStage, NamesRankAndPlaceOfALie) {
  MadeRun run(GetParam(), 4, 2, Algorithm::halving);
  flip(run.ranks[3].micro_batch_grads[0]);
  const Verdict verdict = judge(Claim::bits, run);
  ASSERT_EQ(verdict.evidence.size(), 1U);
  EXPECT_NE(verdict.evidence.front().find("rank 3 (place 2): own gradient of micro-batch "),
            std::string::npos);
  const int number = micro_batch_of(GetParam().reduction, run.facts.training.batching, 2, 0);
  EXPECT_NE(verdict.evidence.front().find("micro-batch " + std::to_string(number) + ":"), std::string::npos);
}

// What only somebody who looks while a step runs can know is left out.
void look_away(std::vector<StepEvidence>& ranks, Inspection looked) {
  for (StepEvidence& step : ranks) {
    step.used.clear();
    step.grads.clear();
    std::ranges::fill(step.micro_batch_grads, HashSum{});
    std::erase_if(step.replica, [](const TensorHash& hash) { return hash.kind == HashKind::grad; });
    if (looked == Inspection::after_step) continue;
    step.state.clear();
    step.replica.clear();
  }
}

TEST_P(EveryStage, IsProvedByNoLessThanWhatWasToBeLookedAt) {
  for (const Inspection looked : {Inspection::after_step, Inspection::meters_only}) {
    MadeRun run(GetParam(), 4, 2, Algorithm::direct);
    look_away(run.ranks, looked);
    EXPECT_TRUE(judge_bits(run.facts, run.reference, run.ranks, looked).holds());
    EXPECT_EQ(judge(Claim::bits, run).finding, Finding::refuted) << "was to be looked at in full";
    for (const Claim claim : {Claim::bytes, Claim::memory, Claim::work})
      EXPECT_TRUE(judge(claim, run).holds()) << name_of(claim);
  }
  MadeRun run(GetParam(), 4, 2, Algorithm::direct);
  look_away(run.ranks, Inspection::meters_only);
  EXPECT_EQ(judge_bits(run.facts, run.reference, run.ranks, Inspection::after_step).finding,
            Finding::refuted);
}

TEST_P(EveryStage, IsRefutedByWhatWasLookedAt) {
  const auto refuted = [](Inspection looked, const auto& lie) {
    MadeRun run(GetParam(), 4, 2, Algorithm::direct);
    look_away(run.ranks, looked);
    lie(run.ranks[2]);
    return judge_bits(run.facts, run.reference, run.ranks, looked).finding == Finding::refuted;
  };
  for (const Inspection looked : {Inspection::after_step, Inspection::meters_only}) {
    EXPECT_TRUE(refuted(looked, [](StepEvidence& step) { step.loss_bits += 1; }));
    EXPECT_TRUE(refuted(looked, [](StepEvidence& step) { step.norm_bits += 1; }));
  }
  for (const HashKind kind : {HashKind::param, HashKind::master, HashKind::m, HashKind::v}) {
    EXPECT_TRUE(refuted(Inspection::after_step,
                        [kind](StepEvidence& step) { flip(of_kind(step.state, kind).hash); }));
  }
  EXPECT_TRUE(refuted(Inspection::after_step, [](StepEvidence& step) {
    step.padding.push_back({.kind = HashKind::m, .unit = 1, .elements = {3}});
  }));
}

// first.weight (217 elements) lies on places 0 to 3 in slices of 64, second.bias just fills one of 192;
// third.bias is shorter than any slice.
TEST_P(EveryStage, NamesTheRanksThatMayHaveSummedWrongly) {
  MadeRun run(GetParam(), 4, 1, Algorithm::direct);
  flip(run.ranks[0].grads[0].hash);
  flip(run.ranks[1].state.back().hash);
  flip(run.ranks[1].grads[1].hash);
  const Verdict verdict = judge(Claim::bits, run);
  ASSERT_EQ(verdict.evidence.size(), 3U);
  EXPECT_NE(verdict.evidence[0].find("gradient of first.weight"), std::string::npos) << verdict.evidence[0];
  EXPECT_NE(verdict.evidence[0].find("rank 1 to 0 (place 0 to 3)"), std::string::npos) << verdict.evidence[0];
  EXPECT_NE(verdict.evidence[1].find("rank 1 (place 0): averaged gradient of second.bias"),
            std::string::npos);
  EXPECT_NE(verdict.evidence[2].find("rank 1 (place 0): second moments of third.bias"), std::string::npos);
}

TEST_P(EveryStage, ComparesEveryReplicaThatItHolds) {
  const bool holds[] = {GetParam().params == theory::Held::whole, GetParam().optimizer == theory::Held::whole,
                        GetParam().optimizer == theory::Held::whole,
                        GetParam().optimizer == theory::Held::whole, GetParam().all_reduces};
  for (const HashKind kind : {HashKind::param, HashKind::master, HashKind::m, HashKind::v, HashKind::grad}) {
    MadeRun run(GetParam(), 3, 1, Algorithm::direct);
    std::vector<TensorHash>& replica = run.ranks[2].replica;
    const auto found = std::ranges::find(replica, kind, &TensorHash::kind);
    ASSERT_EQ(found != replica.end(), holds[static_cast<size_t>(kind)]);
    if (found == replica.end()) continue;
    const int tensor = found->tensor;
    flip(found->hash);
    Verdict verdict = judge(Claim::bits, run);
    ASSERT_EQ(verdict.finding, Finding::refuted);
    EXPECT_NE(verdict.evidence.front().find("rank 2 (place 1): replica of"), std::string::npos);
    const Suspect suspect = first_suspect(run.facts, run.reference, run.ranks);
    EXPECT_TRUE(suspect.found);
    EXPECT_EQ(suspect.kind, kind);
    EXPECT_EQ(suspect.tensor, tensor);
    found->tensor = 99;
    verdict = judge(Claim::bits, run);
    ASSERT_EQ(verdict.finding, Finding::refuted);
    EXPECT_NE(verdict.evidence.front().find("of a tensor that does not exist"), std::string::npos);
    std::erase_if(replica, [&](const TensorHash& h) { return h.kind == kind; });
    verdict = judge(Claim::bits, run);
    ASSERT_EQ(verdict.finding, Finding::refuted);
    EXPECT_NE(verdict.evidence.front().find(": none"), std::string::npos);
  }
}

// fp32 parameters are their own masters: one beside them is refuted, and has no elements to be compared with.
TEST_P(EveryStage, HasNoMasterOfFp32Parameters) {
  MadeRun run(GetParam(), 3, 1, Algorithm::direct, recipe_named("fp32"));
  EXPECT_EQ(judge(Claim::bits, run).finding, Finding::proved);
  for (std::vector<TensorHash>* held : {&run.ranks[2].state, &run.ranks[1].replica}) {
    const TensorHash kept{.tensor = 1, .kind = HashKind::master, .hash = {.low = 3, .high = 4}};
    held->push_back(kept);
    const Verdict verdict = judge(Claim::bits, run);
    ASSERT_EQ(verdict.finding, Finding::refuted);
    EXPECT_NE(verdict.evidence.front().find("masters of first.bias: got"), std::string::npos)
        << verdict.evidence.front();
    EXPECT_FALSE(first_suspect(run.facts, run.reference, run.ranks).found);
    held->pop_back();
  }
}

TEST_P(EveryStage, HasNoSecondMomentsWithSgd) {
  MadeRun run(GetParam(), 2, 1, Algorithm::halving, kRecipes.front(), Method::sgd);
  EXPECT_EQ(judge(Claim::bits, run).finding, Finding::proved);
  EXPECT_EQ(run.ranks[0].work.count("adamw"), 0U);
  run.ranks[1].state.push_back({.tensor = 0, .kind = HashKind::v, .hash = {.low = 3, .high = 4}});
  const Verdict verdict = judge(Claim::bits, run);
  ASSERT_EQ(verdict.finding, Finding::refuted);
  EXPECT_NE(verdict.evidence.front().find("second moments of first.weight: got"), std::string::npos);
  EXPECT_FALSE(first_suspect(run.facts, run.reference, run.ranks).found);
}

// A state that is wrong everywhere, and in the reference too, has still failed.
TEST(Bits, AreNeverProvedOverNaN) {
  MadeRun run(theory::kZero2, 2, 1, Algorithm::halving);
  for (HashSum& hash : run.reference.v) hash.finite = false;
  for (StepEvidence& step : run.ranks) {
    for (TensorHash& h : step.state) h.hash.finite = h.kind != HashKind::v;
  }
  const Verdict verdict = judge(Claim::bits, run);
  ASSERT_EQ(verdict.finding, Finding::refuted);
  EXPECT_NE(verdict.evidence.front().find("NaN or Inf"), std::string::npos);

  MadeRun loss(theory::kZero2, 2, 1, Algorithm::halving);
  loss.reference.loss_bits = std::bit_cast<uint64_t>(std::numeric_limits<double>::infinity());
  for (StepEvidence& step : loss.ranks) step.loss_bits = loss.reference.loss_bits;
  EXPECT_EQ(judge(Claim::bits, loss).finding, Finding::refuted);
}

TEST(Bits, AreComparedInTheOrderOfAStep) {
  MadeRun run(theory::kDdp, 4, 2, Algorithm::halving);
  StepEvidence& step = run.ranks[2];
  const std::vector<std::pair<std::string, std::function<void()>>> later_first{
      {"replica of parameters", [&] { flip(of_kind(step.replica, HashKind::param).hash); }},
      {"second moments of", [&] { flip(of_kind(step.state, HashKind::v).hash); }},
      {"first moments of", [&] { flip(of_kind(step.state, HashKind::m).hash); }},
      {"masters of", [&] { flip(of_kind(step.state, HashKind::master).hash); }},
      {"parameters of", [&] { flip(of_kind(step.state, HashKind::param).hash); }},
      {"gradient norm", [&] { ++step.norm_bits; }},
      {"averaged gradient of", [&] { flip(step.grads[0].hash); }},
      {"own gradient of micro-batch", [&] { flip(step.micro_batch_grads[0]); }},
      {"loss", [&] { ++step.loss_bits; }},
      {"weights of", [&] { flip(step.used[0].hash); }},
  };
  for (const auto& [text, tell] : later_first) {
    tell();
    const Verdict verdict = judge(Claim::bits, run);
    ASSERT_EQ(verdict.finding, Finding::refuted);
    EXPECT_NE(verdict.evidence.front().find(": " + text), std::string::npos) << verdict.evidence.front();
  }
  const Verdict verdict = judge(Claim::bits, run);
  EXPECT_EQ(verdict.evidence.size(), 6U);
  EXPECT_EQ(verdict.evidence.back(), "and 5 more contradictions");
}

// What all ranks do wrongly alike, they log alike.
TEST(Logs, AreComparedWithTheClosedFormToo) {
  MadeRun run(theory::kZero3, 3, 1, Algorithm::direct);
  for (StepEvidence& step : run.ranks) std::swap(step.log[0].tensor, step.log[1].tensor);
  Verdict verdict = judge(Claim::bytes, run);
  ASSERT_EQ(verdict.finding, Finding::refuted);
  EXPECT_NE(verdict.evidence.front().find("by the stage's closed form"), std::string::npos);

  MadeRun one(theory::kZero3, 3, 1, Algorithm::direct);
  std::swap(one.ranks[1].log[0].tensor, one.ranks[1].log[1].tensor);
  verdict = judge(Claim::bytes, one);
  ASSERT_EQ(verdict.evidence.size(), 2U);
  EXPECT_EQ(
      verdict.evidence.front(),
      "step 2, zero3, rank 1 (place 0): collective 0 of the step: got #22 all-gather gather params second "
      "384xbf16, expected #22 all-gather gather params first 384xbf16 as rank 0");
}

// What a library sends is not known, and never passes for right; what it was asked for is judged.
TEST(Bytes, AreNotMeasuredWhereALibrarySendsThem) {
  MadeRun run(theory::kZero2, 3, 2, Algorithm::native);
  EXPECT_EQ(judge(Claim::bytes, run).finding, Finding::not_measured);
  ++run.ranks[1].asked[Purpose::reduce_grads][Operation::reduce_scatter].calls;
  EXPECT_EQ(judge(Claim::bytes, run).finding, Finding::refuted);
}

TEST(Evidence, FitsItsLine) {
  MadeRun run(theory::kDdp, 2, 1, Algorithm::halving);
  run.ranks[0].work[std::string(500, 'x')] = {1, {1}};
  const Verdict verdict = judge(Claim::work, run);
  ASSERT_EQ(verdict.evidence.size(), 1U);
  EXPECT_EQ(verdict.evidence.front().size(), 200U);
}

TEST(Bits, SayHowFarANumberIsOff) {
  MadeRun run(theory::kZero3, 2, 1, Algorithm::halving);
  run.ranks[1].loss_bits += 3;
  const Verdict verdict = judge(Claim::bits, run);
  ASSERT_EQ(verdict.evidence.size(), 1U);
  EXPECT_EQ(verdict.evidence.front(),
            "step 2, zero3, rank 1 (place 0): loss: got 0x4006000000000003 (2.7500000000000013), expected "
            "0x4006000000000000 (2.75), difference 3 ulps");
}

TEST(Suspects, AreFoundInTheOrderOfTheBitsClaim) {
  MadeRun run(theory::kZero2, 3, 2, Algorithm::direct);
  flip(of_kind(run.ranks[1].state, HashKind::v).hash);
  Suspect suspect = first_suspect(run.facts, run.reference, run.ranks);
  EXPECT_TRUE(suspect.found);
  EXPECT_EQ(suspect.kind, HashKind::v);
  flip(run.ranks[2].grads.back().hash);
  suspect = first_suspect(run.facts, run.reference, run.ranks);
  EXPECT_EQ(suspect.kind, HashKind::grad);
  EXPECT_EQ(suspect.tensor, run.ranks[2].grads.back().tensor);
}

TEST(Verdicts, StayRefutedOnceRefuted) {
  const Verdict proved{Claim::bytes, Finding::proved, {}};
  const Verdict refuted{Claim::bytes, Finding::refuted, {"one", "two", "three", "four"}};
  Verdict all = proved;
  merge(all, proved);
  EXPECT_TRUE(all.holds());
  merge(all, refuted);
  merge(all, proved);
  EXPECT_EQ(all.finding, Finding::refuted);
  EXPECT_EQ(all.evidence, refuted.evidence);
  merge(all, {Claim::bytes, Finding::refuted, {"five", "six", "seven"}});
  EXPECT_EQ(all.evidence, (std::vector<std::string>{"one", "two", "three", "four", "five", "six"}));
  EXPECT_THROW(merge(all, {Claim::work, Finding::proved, {}}), Error);
}

// A file may hold an H that its own hashes do not add up to.
TEST(Bits, AreRefutedByAHashOfTheWholeStateAlone) {
  MadeRun run(theory::kZero3, 3, 2, Algorithm::direct);
  flip(run.reference.state);
  const Verdict verdict = judge(Claim::bits, run);
  ASSERT_EQ(verdict.evidence.size(), 1U);
  EXPECT_NE(verdict.evidence.front().find("hash of the whole state: got "), std::string::npos);
}

// Every rank has the same data and so does the reference: nothing differs, and nothing is shown.
TEST(Judges, RefuteBitsOfMicroBatchesThatDoNotDiffer) {
  MadeRun run(theory::kZero2, 4, 2, Algorithm::halving);
  for (HashSum& hash : run.reference.micro_batch_grads) hash = run.reference.micro_batch_grads.front();
  for (StepEvidence& rank : run.ranks) {
    for (HashSum& hash : rank.micro_batch_grads) hash = run.reference.micro_batch_grads.front();
  }
  const Verdict verdict = judge(Claim::bits, run);
  ASSERT_EQ(verdict.finding, Finding::refuted);
  EXPECT_NE(verdict.evidence.front().find("micro-batches 0 and 1 have the same gradient"), std::string::npos);
}

TEST(Merge, WhatWasNotMeasuredInOneStepIsNotProvedOfTheRun) {
  const Verdict proved{Claim::bytes, Finding::proved, {}};
  const Verdict unmeasured{Claim::bytes, Finding::not_measured, {}};
  Verdict all = proved;
  merge(all, unmeasured);
  EXPECT_EQ(all.finding, Finding::not_measured);
  merge(all, proved);
  EXPECT_EQ(all.finding, Finding::not_measured);
  merge(all, {Claim::bytes, Finding::refuted, {"one"}});
  EXPECT_EQ(all.finding, Finding::refuted);
  merge(all, unmeasured);
  EXPECT_EQ(all.finding, Finding::refuted);
}

// A pool in which no grain explains what buffers take.
TEST(Judges, DoNotMeasureMemoryThatAPoolDoesNotTell) {
  MadeRun run(theory::kZero2, 4, 2, Algorithm::direct);
  run.ranks[2].device->grain = {};
  run.ranks[2].device->used += {7};
  EXPECT_EQ(judge(Claim::memory, run).finding, Finding::not_measured);
  run.ranks[2].held[Point::after_step][Category::grads] += {1};
  EXPECT_EQ(judge(Claim::memory, run).finding, Finding::refuted) << "the ledger is measured all the same";
}

TEST(Judges, RefuteMemoryOfTheHostThatIsPinnedOnARouteThatNeedsNone) {
  for (const Route route : {Route::gpu_aware, Route::carried}) {
    MadeRun run(theory::kZero2, 4, 2, Algorithm::direct);
    for (StepEvidence& rank : run.ranks) rank.device->pinned = {};
    run.facts.route = route;
    EXPECT_TRUE(judge(Claim::memory, run).holds());
    run.ranks[3].device->pinned = {256};
    const Verdict verdict = judge(Claim::memory, run);
    ASSERT_EQ(verdict.finding, Finding::refuted);
    const std::string found = "for messages, which are " + std::string(name_of(route)) + ": got 256 B";
    EXPECT_NE(verdict.evidence.front().find(found), std::string::npos) << verdict.evidence.front();
  }
}

TEST(Judges, RefuseEvidenceOfAnotherWorld) {
  MadeRun run(theory::kDdp, 2, 1, Algorithm::halving);
  run.ranks.pop_back();
  for (const Claim claim : kClaims) EXPECT_THROW(judge(claim, run), Error);
}

}  // namespace
}  // namespace zp
