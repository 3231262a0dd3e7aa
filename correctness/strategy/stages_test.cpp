// What every stage promises: all four claims hold, and it ends on the bits of one device alone, for any
// number of ranks, fold, recipe, algorithm and place, with fresh and freed memory poisoned.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <map>

#include "correctness/mutants/trial.hpp"
#include "harness/base/random.hpp"

namespace zp {
namespace {

using mutants::Outcome;
using mutants::Trial;

void expect_proved(const Trial& trial) {
  const Outcome outcome = mutants::run(trial);
  ASSERT_TRUE(outcome.result) << outcome.error->what();
  EXPECT_TRUE(outcome.result->proved())
      << trial.stage << ", " << trial.world << " ranks, M = " << trial.micro_batches << ", " << trial.recipe
      << ", " << name_of(trial.optimizer) << ", " << name_of(trial.accumulate) << "\n"
      << outcome.evidence(Claim::bits) << outcome.evidence(Claim::bytes) << outcome.evidence(Claim::memory)
      << outcome.evidence(Claim::work);
  EXPECT_EQ(outcome.result->steps_done, trial.steps);
}

class EveryStage : public testing::TestWithParam<std::string> {
 protected:
  Trial trial(int world, int micro_batches) const {
    Trial t;
    t.name = "stage";
    t.stage = GetParam();
    t.world = world;
    t.micro_batches = micro_batches;
    return t;
  }
};

TEST_P(EveryStage, HoldsItsClaimsForAnyNumberOfRanksAndMicroSteps) {
  for (const int world : {1, 2, 3, 4, 5, 7, 8}) {
    for (const int micro_steps : {1, 2, 3}) expect_proved(trial(world, world * micro_steps));
  }
}

TEST_P(EveryStage, HoldsItsClaimsInEveryRecipe) {
  for (const Recipe& recipe : kRecipes) {
    if (recipe.name == Trial{}.recipe) continue;  // the test above
    for (const int world : {1, 2, 3, 4, 8}) {
      for (const int micro_steps : {1, 2}) {
        Trial t = trial(world, world * micro_steps);
        t.recipe = recipe.name;
        expect_proved(t);
      }
    }
  }
}

// Micro-steps one after another, with every optimizer and recipe: sums are rounded in other places.
TEST_P(EveryStage, HoldsItsClaimsWithEveryOptimizerAndAccumulation) {
  const std::array sizes{std::pair{2, 4}, std::pair{3, 3}, std::pair{1, 5}, std::pair{4, 3}};
  size_t at = 0;
  for (const Recipe& recipe : kRecipes) {
    for (const Method optimizer : kMethods) {
      for (const Accumulate accumulate : {Accumulate::fold, Accumulate::sequential}) {
        if (optimizer == Method::adamw && accumulate == Accumulate::fold) continue;
        const auto [world, micro_steps] = sizes[at++ % sizes.size()];
        Trial t = trial(world, world * micro_steps);
        t.recipe = recipe.name;
        t.optimizer = optimizer;
        t.accumulate = accumulate;
        t.lr = optimizer == Method::sgd ? 0.5F : t.lr;
        expect_proved(t);
      }
    }
  }
}

TEST_P(EveryStage, FoldsDeepTreesOfMicroSteps) {
  for (const int micro_steps : {5, 6, 7, 8, 11}) {
    Trial t = trial(2, 2 * micro_steps);
    t.steps = 1;
    expect_proved(t);
  }
}

TEST_P(EveryStage, HoldsItsClaimsWithBf16GradientsWhereverTheyAreRounded) {
  for (const int world : {1, 2, 3, 4}) {
    for (const int micro_steps : {3, 4}) {
      Trial t = trial(world, world * micro_steps);
      t.recipe = "bf16";
      expect_proved(t);
    }
  }
}

TEST_P(EveryStage, RoundsPartialSumsOfHalvingInBf16) {
  for (const int world : {2, 4, 8}) {
    for (const int micro_steps : {1, 3}) {
      Trial t = trial(world, world * micro_steps);
      t.recipe = "bf16";
      t.algorithm = Algorithm::halving;
      expect_proved(t);
    }
  }
}

TEST_P(EveryStage, SumsInFixedPointAnyNumberOfMicroStepsAndRanks) {
  for (const int world : {1, 2, 3, 4, 8}) {
    for (const int micro_steps : {1, 2, 3}) {
      Trial t = trial(world, world * micro_steps);
      t.wire = GradientWire::i64;
      t.tied = micro_steps == 3;
      if (world == 2) t.frozen = {"block.1"};
      expect_proved(t);
    }
  }
}

TEST_P(EveryStage, AddsRoundTheRingFromBehindEveryOwner) {
  for (const char* recipe : {"bf16-fp32grad", "bf16"}) {
    for (const int world : {1, 2, 3, 4}) {
      Trial t = trial(world, 2 * world);
      t.steps = 1;
      t.recipe = recipe;
      t.algorithm = Algorithm::ring;
      t.tied = world == 4;
      if (world == 3) t.frozen = {"block.0"};
      expect_proved(t);
    }
  }
}

TEST_P(EveryStage, DependsOnPlacesNotOnRanks) {
  for (const Algorithm algorithm : {Algorithm::halving, Algorithm::direct, Algorithm::ring}) {
    Trial t = trial(4, 8);
    t.algorithm = algorithm;
    t.rank_at = {2, 0, 3, 1};
    expect_proved(t);
  }
}

// Nodes of two, of one and three ranks, and dealt out in turn: no bit and no byte depends on them, and what
// crosses is what the closed form says.
TEST_P(EveryStage, StandsByNode) {
  const std::vector<std::pair<std::vector<int>, Algorithm>> choices{{{0, 0, 2, 2}, Algorithm::halving},
                                                                    {{0, 0, 2, 2}, Algorithm::direct},
                                                                    {{0, 1, 0, 1}, Algorithm::halving},
                                                                    {{0, 1, 1, 1}, Algorithm::direct}};
  for (const auto& [nodes, algorithm] : choices) {
    Trial t = trial(4, 8);
    t.algorithm = algorithm;
    t.node_of = nodes;
    expect_proved(t);
  }
}

TEST_P(EveryStage, HoldsItsClaimsWithoutClippingAndFarBelowTheNorm) {
  for (const double clip : {0.0, 0.01}) {
    Trial t = trial(3, 6);
    t.clip = clip;
    expect_proved(t);
  }
}

TEST_P(EveryStage, HoldsItsClaimsOnUnitsSmallerThanTheWorld) {
  for (const Recipe& recipe : kRecipes) {
    for (const int world : {1, 3, 4, 8}) {
      Trial t = trial(world, 2 * world);
      t.model = "synthetic";
      t.recipe = recipe.name;
      t.steps = 3;
      expect_proved(t);
    }
  }
}

// The head borrows the token table: its gradient is whole from head to embeddings, and is reduced once.
TEST_P(EveryStage, HoldsItsClaimsOnATiedModel) {
  struct Layout {
    int world, micro_steps;
    const char* recipe;
  };
  for (const auto& [world, micro_steps, recipe] : {Layout{1, 3, "bf16"},
                                                   {2, 2, "fp32"},
                                                   {3, 3, "bf16-fp32grad"},
                                                   {4, 1, "bf16"},
                                                   {8, 1, "bf16-fp32grad"}}) {
    Trial t = trial(world, world * micro_steps);
    t.tied = true;
    t.recipe = recipe;
    t.schedule.prefetch = world % 3;
    t.schedule.overlap = world % 2 == 0 ? Overlap::on : Overlap::off;
    expect_proved(t);
  }
}

TEST_P(EveryStage, AddsDeepTreesOfATiedModelsMicroSteps) {
  Trial t = trial(2, 2 * 6);
  t.tied = true;
  t.recipe = "bf16";
  t.schedule.bucket = {3000};
  expect_proved(t);
}

// Frozen at the bottom, where backward ends above them; in the middle; at the top; and what a head borrows.
TEST_P(EveryStage, HoldsItsClaimsWithFrozenUnits) {
  const std::vector<std::vector<std::string>> choices{
      {"embeddings", "block.0"}, {"block.1"}, {"block.0", "head"}, {"embeddings", "block.1"}};
  int world = 1;
  for (const auto& frozen : choices) {
    const bool tied = world > 2;
    Trial t = trial(world, world * (tied ? 3 : 2));
    t.tied = tied;
    t.frozen = frozen;
    t.recipe = tied ? "bf16" : "bf16-fp32grad";
    t.schedule.prefetch = world % 2;
    t.schedule.overlap = tied ? Overlap::on : Overlap::off;
    expect_proved(t);
    t.model = "synthetic";
    t.frozen = {tied ? "odd" : "wide", "over"};
    t.tied = false;
    expect_proved(t);
    ++world;
  }
}

TEST_P(EveryStage, HoldsItsClaimsWhereSeveralBlocksFormAUnit) {
  for (const int64_t blocks : {2, 3}) {
    Trial t = trial(3, 6);
    t.tied = blocks == 3;
    t.unit_blocks = blocks;
    t.frozen = blocks == 2 ? std::vector<std::string>{"blocks.0-1"} : std::vector<std::string>{};
    expect_proved(t);
  }
}

// No schedule changes a bit or a byte, and memory follows from it: settings drawn from a fixed seed.
TEST_P(EveryStage, HoldsItsClaimsUnderAnySchedule) {
  uint64_t draw = 0;
  const auto pick = [&](const auto& choices) {
    return choices[random_bits(key_of(11, GetParam()), draw++) % choices.size()];
  };
  for (int i = 0; i < 24; ++i) {
    const int world = pick(std::array{1, 2, 3, 4, 8});
    Trial t = trial(world, world * pick(std::array{1, 2, 3, 4}));
    t.recipe = pick(kRecipes).name;
    t.optimizer = pick(kMethods);
    t.accumulate = pick(std::array{Accumulate::fold, Accumulate::sequential});
    t.schedule.bucket = {pick(std::array{0, 1, 3000, 20000, 100000, 10000000})};
    t.schedule.prefetch = pick(std::array{0, 1, 2, 3, 50});
    t.schedule.overlap = pick(std::array{Overlap::on, Overlap::off});
    t.threads = pick(std::array{1, 2});
    if (t.recipe == "bf16-fp32grad") t.wire = pick(std::array{GradientWire::as_stored, GradientWire::i64});
    if (std::has_single_bit(static_cast<unsigned>(world))) {
      t.algorithm = pick(std::array{Algorithm::halving, Algorithm::direct});
    }
    SCOPED_TRACE("bucket " + std::to_string(t.schedule.bucket.n) + ", prefetch " +
                 std::to_string(t.schedule.prefetch) + ", overlap " +
                 std::to_string(static_cast<int>(t.schedule.overlap)));
    expect_proved(t);
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, EveryStage, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const StageRow& row : stages()) names.emplace_back(row.name());
                           return names;
                         }()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

// Between zero3 and zero3-keep: bytes and memory follow from the uses, and no bit changes.
TEST(Keep, OfAnyNumberOfUnitsHoldsItsClaims) {
  for (const bool tied : {false, true}) {
    for (const int keep : {0, 1, 2, 4, 5, 9}) {
      Trial t;
      t.stage = "zero3";
      t.world = 2;
      t.tied = tied;
      t.keep = keep;
      t.schedule.prefetch = keep % 3;
      t.schedule.overlap = keep % 2 == 0 ? Overlap::on : Overlap::off;
      SCOPED_TRACE(keep);
      expect_proved(t);
    }
  }
}

// By hand, two nodes of two ranks: a rank sends three slices a pass. Halving keeps two of them in the node,
// direct one.
TEST(Crossing, IsOneSliceOfThreeInHalvingAndTwoInDirect) {
  for (const Algorithm algorithm : {Algorithm::halving, Algorithm::direct}) {
    Trial t;
    t.stage = "zero3";
    t.world = 4;
    t.algorithm = algorithm;
    t.node_of = {0, 0, 1, 1};
    const Outcome outcome = mutants::run(t);
    ASSERT_TRUE(outcome.result) << outcome.error->what();
    EXPECT_TRUE(outcome.result->proved()) << outcome.evidence(Claim::bytes);
    const int64_t crossing = algorithm == Algorithm::halving ? 1 : 2;
    EXPECT_EQ(outcome.result->crossing.n * 3, outcome.result->sent_per_step.n * crossing);
  }
}

// One hash for every stage and every power of two of ranks at M = 8, and one for the synthetic model at any
// number.
TEST(Hash, IsOneForEveryStageAndPowerOfTwoOfRanks) {
  std::map<std::string, std::string> seen;
  for (const char* recipe : {"bf16-fp32grad", "fp32"}) {
    for (const StageRow& row : stages()) {
      for (const int world : {1, 2, 4, 8}) {
        Trial t;
        t.stage = row.name();
        t.world = world;
        t.micro_batches = 8;
        t.recipe = recipe;
        if (world == 8) t.node_of = {0, 0, 0, 0, 1, 1, 1, 1};
        const Outcome outcome = mutants::run(t);
        ASSERT_TRUE(outcome.result) << outcome.error->what();
        seen[to_string(outcome.result->hash)] += t.stage + " ";
      }
    }
  }
  EXPECT_EQ(seen.size(), 2U) << "one for each recipe";
}

// In fixed point at any number of ranks.
TEST(Hash, IsOneInFixedPointForEveryStageNumberOfRanksAndAlgorithm) {
  std::map<std::string, std::string> seen;
  for (const StageRow& row : stages()) {
    for (const int world : {1, 2, 3, 4, 6}) {
      Trial t;
      t.stage = row.name();
      t.world = world;
      t.micro_batches = 12;
      t.wire = GradientWire::i64;
      if (world % 3 == 1) t.algorithm = Algorithm::direct;
      if (world % 3 == 0) t.algorithm = Algorithm::ring;
      const Outcome outcome = mutants::run(t);
      ASSERT_TRUE(outcome.result) << outcome.error->what();
      seen[to_string(outcome.result->hash)] += t.stage + " ";
    }
  }
  EXPECT_EQ(seen.size(), 1U);
}

TEST(Hash, IsOneForTheSyntheticModelAtAnyNumberOfRanks) {
  std::map<std::string, std::string> seen;
  for (const StageRow& row : stages()) {
    for (const int world : {1, 2, 3, 4, 6}) {
      Trial t;
      t.stage = row.name();
      t.model = "synthetic";
      t.world = world;
      t.micro_batches = 12;
      const Outcome outcome = mutants::run(t);
      ASSERT_TRUE(outcome.result) << outcome.error->what();
      seen[to_string(outcome.result->hash)] += t.stage + " ";
    }
  }
  EXPECT_EQ(seen.size(), 1U);
}

}  // namespace
}  // namespace zp
