// What the checks must catch: stages that are wrong on purpose are refuted by the claim that they offend, by
// name, and none hangs. A mutant that offends one claim leaves the others proved.
#include <gtest/gtest.h>

#include "correctness/mutants/cases.hpp"
#include "correctness/mutants/wrong_parts.hpp"

namespace zp::mutants {
namespace {

std::string names(const std::set<Claim>& claims) {
  std::string text;
  for (const Claim claim : claims) text += std::string(name_of(claim)) + " ";
  return text;
}

class EveryMutant : public testing::TestWithParam<Case> {};

TEST_P(EveryMutant, IsRefutedByTheClaimsItOffends) {
  const Case& mutant = GetParam();
  const Outcome outcome = run(mutant.mutant);
  ASSERT_TRUE(outcome.result) << outcome.error->what();
  EXPECT_EQ(names(outcome.refuted()), names(mutant.refuted))
      << outcome.evidence(Claim::bits) << outcome.evidence(Claim::bytes) << outcome.evidence(Claim::memory)
      << outcome.evidence(Claim::work);
  const std::string evidence = outcome.evidence(*mutant.refuted.begin());
  EXPECT_NE(evidence.find(mutant.says), std::string::npos) << evidence;
  EXPECT_NE(evidence.find("step "), std::string::npos) << evidence;
  EXPECT_NE(evidence.find(mutant.mutant.stage), std::string::npos) << evidence;
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(all_mutants()),
                         [](const auto& info) { return info.param.mutant.name; });

// ---- Mutants that no claim can judge, since the ranks no longer talk: they end, on every rank, with an
// error.

TEST(Mutants, SwappedCollectivesOnOneRankEndWithBothLogsNamed) {
  Trial m{.name = "Swapped", .stage = "zero2", .world = 3, .micro_batches = 3, .timeout_s = 2.0};
  m.faults = [](int rank) {
    Faults faults;
    if (rank != 1) return faults;
    faults.strategy = [](std::unique_ptr<Strategy> inner, Rig&) { return inner; };
    faults.transport = [](Transport& inner) {
      auto transport = std::make_unique<WrongTransport>(inner);
      // Blocks have one shape, so block.0's gather under block.1's name is the silent case.
      transport->on_all_gather = [](Transport& next, const AllGather& call) {
        AllGather other = call;
        if (call.label.tensor == 1 || call.label.tensor == 2) other.label.tensor = 3 - call.label.tensor;
        return next.all_gather(other);
      };
      return transport;
    };
    return faults;
  };
  const Outcome outcome = run(m);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code(), Exit::transport) << outcome.error->what();
  const std::string text = outcome.error->what();
  EXPECT_NE(text.find("collective logs differ"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
}

TEST(Mutants, ACollectiveThatOneRankLeavesOutEndsWithBothLogsNamed) {
  Trial m{.name = "LeftOut", .stage = "zero1", .world = 2, .timeout_s = 2.0};
  m.faults = [](int rank) {
    Faults faults;
    if (rank != 1) return faults;
    faults.transport = [](Transport& inner) {
      auto transport = std::make_unique<WrongTransport>(inner);
      transport->on_all_gather = [](Transport& next, const AllGather& call) {
        return call.label.purpose == Purpose::loss ? Handle() : next.all_gather(call);
      };
      return transport;
    };
    return faults;
  };
  const Outcome outcome = run(m);
  ASSERT_TRUE(outcome.error);
  const std::string text = outcome.error->what();
  EXPECT_EQ(outcome.error->code(), Exit::transport) << text;
  EXPECT_NE(text.find("collective logs differ"), std::string::npos) << text;
  EXPECT_NE(text.find("stage zero1"), std::string::npos) << text;
}

TEST(Mutants, ARankThatStopsIsNamedByTheOthers) {
  Trial m{.name = "Stops", .stage = "zero3", .world = 3, .timeout_s = 2.0};
  m.faults = [](int rank) {
    Faults faults;
    if (rank != 2) return faults;
    faults.begin_step = [](int step) {
      if (step == 1) fail(Exit::internal, "rank 2 stops here");
    };
    return faults;
  };
  const Outcome outcome = run(m);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code(), Exit::internal) << outcome.error->what();
  EXPECT_NE(std::string(outcome.error->what()).find("rank 2 stops here"), std::string::npos);
}

// Fixed point has bounds, and a rank that passes them is named, with what it computed.
TEST(Mutants, AGradientThatFixedPointDoesNotHoldEndsWithItsName) {
  Trial m{.name = "OutOfBounds", .stage = "zero2", .world = 2, .timeout_s = 5.0, .wire = GradientWire::i64};
  m.faults = computes(
      [](kernels::Table& table, const kernels::Call& call) {
        table.run(call);
        if (const auto* bias = as<kernels::BiasBackward>(call)) bias->dbias.write<float>()[1] = 65536.0F;
      },
      1);
  const Outcome outcome = run(m);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code(), Exit::bits) << outcome.error->what();
  const std::string text = outcome.error->what();
  for (const char* word :
       {"step 0", "rank 1", "micro-batch ", "block.2", "bias", "element 1", "65536", "2^19/8"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " is missing in " << text;
}

// The control: the same run without a fault proves everything, in every stage.
TEST(Mutants, ARightStageIsProved) {
  for (const StageRow& row : stages()) {
    const Outcome outcome = run({.name = "Right", .stage = std::string(row.name()), .world = 3});
    ASSERT_TRUE(outcome.result) << outcome.error->what();
    EXPECT_TRUE(outcome.result->proved()) << row.name() << "\n"
                                          << outcome.evidence(Claim::bits) << outcome.evidence(Claim::bytes)
                                          << outcome.evidence(Claim::memory) << outcome.evidence(Claim::work);
  }
}

}  // namespace
}  // namespace zp::mutants
