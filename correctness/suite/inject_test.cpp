// Faults on request: what is said is what strikes, once, where it was asked for, and the documented claim
// refutes it.
#include "harness/suite/inject.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "correctness/mutants/trial.hpp"

namespace zp {
namespace {

TEST(Injection, ReadsKindAndKeys) {
  const Injection plain = parse_injection("extra-message", 4);
  EXPECT_EQ(plain.kind, FaultKind::extra_message);
  EXPECT_EQ(plain.step, 0);
  EXPECT_EQ(plain.rank, -1);
  const Injection full = parse_injection("bitflip:step=2,rank=1,unit=3,bit=22,stage=zero2", 4);
  EXPECT_EQ(full.step, 2);
  EXPECT_EQ(full.rank, 1);
  EXPECT_EQ(full.unit, 3);
  EXPECT_EQ(full.bit, 22);
  EXPECT_EQ(full.stage, "zero2");
  EXPECT_EQ(parse_injection("bitflip", 4).rank, 3);
  // Whoever computes a micro-batch is struck where it is named.
  EXPECT_EQ(parse_injection("flip-gradient", 4).rank, 3);
  EXPECT_EQ(parse_injection("flip-gradient:micro-batch=5", 4).rank, -1);
  EXPECT_EQ(parse_injection("flip-gradient:micro-batch=5", 4).micro_batch, 5);
  EXPECT_EQ(parse_injection("flip-gradient:micro-batch=5,rank=0", 4).rank, 0);
  EXPECT_EQ(parse_injection("extra-compute", 4).rank, 3);
}

// A bitflip that names a micro-batch is a flip-gradient, whatever the order of its keys.
TEST(Injection, ABitflipOfAMicroBatchIsAFlippedGradient) {
  for (const char* keys : {"micro-batch=5", "step=1,micro-batch=5,bit=3", "micro-batch=0,rank=2",
                           "rank=2,unit=1,micro-batch=7,stage=ddp"}) {
    const Injection flip = parse_injection(std::string("flip-gradient:") + keys, 4);
    const Injection same = parse_injection(std::string("bitflip:") + keys, 4);
    EXPECT_EQ(same.kind, FaultKind::flip_gradient) << keys;
    EXPECT_EQ(same.text, std::string("bitflip:") + keys) << "as given";
    EXPECT_EQ(std::tie(same.stage, same.step, same.rank, same.unit, same.bit, same.micro_batch),
              std::tie(flip.stage, flip.step, flip.rank, flip.unit, flip.bit, flip.micro_batch))
        << keys;
  }
  EXPECT_EQ(parse_injection("bitflip:bit=3", 4).kind, FaultKind::bitflip);
}

TEST(Injection, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {"flip", "bitflip:step", "bitflip:step=", "bitflip:step=x", "bitflip:rank=4", "bitflip:colour=1",
        "extra-message:bit=3", "bitflip:step=-1", "extra-compute:micro-batch=1"}) {
    try {
      parse_injection(text, 4);
      ADD_FAILURE() << text << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::usage);
      EXPECT_NE(std::string(error.what()).find("--inject"), std::string::npos);
    }
  }
}

TEST(Injection, RefusesWhatTheJobDoesNotHave) {
  InjectionBounds bounds;
  bounds.steps = 3;
  bounds.units = 5;
  bounds.micro_batches = 8;
  bounds.grads = bounds.wire = Type::bf16;
  bounds.stages = {"ddp", "zero2"};
  EXPECT_NO_THROW(check_injection(parse_injection("flip-gradient:micro-batch=7", 2), bounds));
  EXPECT_NO_THROW(check_injection(parse_injection("bitflip:step=2,unit=4,bit=15,stage=zero2", 2), bounds));
  for (const char* text : {"bitflip:step=3", "bitflip:unit=5", "bitflip:bit=16", "bitflip:stage=zero3",
                           "flip-gradient:micro-batch=8"}) {
    EXPECT_THROW(check_injection(parse_injection(text, 2), bounds), Error) << text;
  }
}

class EveryFault : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(EveryFault, IsRefutedWithItsDocumentedCodeWhereItStrikes) {
  const std::string kind = std::get<0>(GetParam());
  const std::string stage = std::get<1>(GetParam());
  for (const FaultRow& row : fault_table()) {
    if (row.name != kind) continue;
    for (const int world : {2, 3}) {
      const FiredCounts fired = no_strikes(1);
      const Injection injection = parse_injection(kind + ":step=1", world);
      mutants::Trial trial;
      trial.stage = stage;
      trial.world = world;
      trial.steps = 3;
      trial.faults = [&](int rank) { return make_faults({injection}, stage, rank, Type::f32, fired); };
      const mutants::Outcome outcome = mutants::run(trial);
      ASSERT_TRUE(outcome.result) << outcome.error->what();
      if (*fired[0] == 0) {
        // Nothing to strike at: ddp gathers no parameters and fills no buckets, zero1 fills no buckets.
        EXPECT_TRUE(outcome.result->proved());
        EXPECT_TRUE((kind == "skip-gather" && stage == "ddp") ||
                    (kind == "keep-gradients" && (stage == "ddp" || stage.starts_with("zero1"))));
        continue;
      }
      EXPECT_EQ(outcome.result->steps_done, 2) << "proved before, refuted in the step that was named";
      ASSERT_FALSE(outcome.refuted().empty());
      EXPECT_EQ(exit_of(*outcome.refuted().begin()), row.exit);
      const std::string evidence = outcome.evidence(*outcome.refuted().begin());
      for (const std::string& word :
           {std::string("step 1"), stage, std::string("rank "), std::string("place ")}) {
        EXPECT_NE(evidence.find(word), std::string::npos) << word << " is missing in\n" << evidence;
      }
    }
  }
}

// Who computed wrongly, and on what: named though every rank's state is wrong afterwards.
TEST(FlipGradient, IsFoundInTheGradientOfTheMicroBatchThatItStruck) {
  for (const StageRow& row : stages()) {
    for (const int number : {0, 4, 8}) {
      const FiredCounts fired = no_strikes(1);
      const Injection injection =
          parse_injection("flip-gradient:step=1,micro-batch=" + std::to_string(number), 3);
      mutants::Trial trial;
      trial.stage = row.name();
      trial.world = 3;
      trial.model = "synthetic";
      trial.faults = [&](int rank) { return make_faults({injection}, row.name(), rank, Type::f32, fired); };
      const mutants::Outcome outcome = mutants::run(trial);
      ASSERT_TRUE(outcome.result) << outcome.error->what();
      EXPECT_EQ(*fired[0], 1);
      EXPECT_EQ(outcome.refuted(), std::set<Claim>{Claim::bits});
      const bool first = row.promise.reduction == Reduction::after_accumulation;
      const int place = first ? number % 3 : number / 3;
      const std::string says = "step 1, " + std::string(row.name()) + ", rank " + std::to_string(place) +
                               " (place " + std::to_string(place) + "): own gradient of micro-batch " +
                               std::to_string(number) + ": got";
      EXPECT_TRUE(outcome.evidence(Claim::bits).starts_with(says)) << outcome.evidence(Claim::bits);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryFault,
                         testing::Combine(testing::ValuesIn([] {
                                            std::vector<std::string> names;
                                            for (const FaultRow& row : fault_table())
                                              names.emplace_back(row.name);
                                            return names;
                                          }()),
                                          testing::ValuesIn([] {
                                            std::vector<std::string> names;
                                            for (const StageRow& row : stages())
                                              names.emplace_back(row.name());
                                            return names;
                                          }())),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace zp
