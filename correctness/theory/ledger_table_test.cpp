// The two 7B tables of the literature to the last digit, the exact tables, and the choice of a stage.
#include "harness/theory/ledger_table.hpp"

#include <gtest/gtest.h>

#include "correctness/theory/shapes.hpp"
#include "harness/theory/recommend.hpp"
#include "harness/theory/stages.hpp"

namespace zp::theory {
namespace {

const Recipe& recipe_named(std::string_view name) {
  for (const Recipe& recipe : kRecipes) {
    if (recipe.name == name) return recipe;
  }
  throw std::out_of_range("no such recipe");
}

std::vector<IdealRow> table_of_7b(int micro_steps = 1, std::string_view recipe = "bf16") {
  return ideal_table(
      kStages, {.parameters = 7e9, .ranks = 4, .recipe = recipe_named(recipe), .micro_steps = micro_steps});
}

TEST(SevenBillionOnFourRanks, Hold) {
  struct Row {
    std::string_view stage;
    double params, grads, optimizer, held, gathered;
  };
  const std::vector<Row> expected{
      {"ddp", 14e9, 14e9, 84e9, 112e9, 0},
      {"zero1", 14e9, 14e9, 21e9, 49e9, 0},
      {"zero1-allreduce", 14e9, 14e9, 21e9, 49e9, 0},
      {"zero2", 14e9, 3.5e9, 21e9, 38.5e9, 0},
      {"zero3", 3.5e9, 3.5e9, 21e9, 28e9, 0},
      {"zero3-keep", 3.5e9, 3.5e9, 21e9, 28e9, 14e9},
  };
  const std::vector<IdealRow> rows = table_of_7b();
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].stage, expected[i].stage);
    EXPECT_EQ(rows[i].params, expected[i].params) << rows[i].stage;
    EXPECT_EQ(rows[i].grads, expected[i].grads) << rows[i].stage;
    EXPECT_EQ(rows[i].optimizer, expected[i].optimizer) << rows[i].stage;
    EXPECT_EQ(rows[i].held(), expected[i].held) << rows[i].stage;
    EXPECT_EQ(rows[i].gathered, expected[i].gathered) << rows[i].stage;
  }
}

TEST(SevenBillionOnFourRanks, Send) {
  const std::vector<std::pair<double, double>> params_and_grads{
      {0, 21e9}, {10.5e9, 10.5e9}, {10.5e9, 21e9}, {10.5e9, 10.5e9}, {21e9, 10.5e9}, {10.5e9, 10.5e9}};
  const std::vector<double> sent{21e9, 21e9, 31.5e9, 21e9, 31.5e9, 21e9};
  const std::vector<double> passes{2, 2, 3, 2, 3, 2};
  const std::vector<IdealRow> rows = table_of_7b();
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].sent_params, params_and_grads[i].first) << rows[i].stage;
    EXPECT_EQ(rows[i].sent_grads, params_and_grads[i].second) << rows[i].stage;
    EXPECT_EQ(rows[i].sent(), sent[i]) << rows[i].stage;
    EXPECT_EQ(rows[i].passes, passes[i]) << rows[i].stage;
  }
}

TEST(SevenBillionOnFourRanks, SpendThreeQuartersOfDdpOnTheOptimizer) {
  const IdealRow ddp = table_of_7b().front();
  EXPECT_EQ(ddp.optimizer_share(), 0.75);
  EXPECT_EQ(4 * ddp.held(), 448e9);
  EXPECT_EQ(4 * ddp.optimizer, 336e9);
}

// A = 4: (N-1)/N·Ψ = 5.25e9 elements a pass.
TEST(SevenBillionOnFourRanks, SendMoreWhereEveryMicroStepIsReduced) {
  const std::vector<double> sent{21e9, 21e9, 31.5e9, 10.5e9 * (4 + 1), 4 * 31.5e9, 4 * 21e9};
  const std::vector<IdealRow> rows = table_of_7b(4);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].sent(), sent[i]) << rows[i].stage;
}

// Eighteen bytes a parameter; gradients travel in fp32.
TEST(SevenBillionOnFourRanks, HoldAndSendFp32GradientsByDefault) {
  const std::vector<IdealRow> rows = table_of_7b(1, "bf16-fp32grad");
  EXPECT_EQ(rows[0].held(), 126e9);
  EXPECT_EQ(rows[0].sent(), 42e9);
  EXPECT_EQ(rows[1].sent(), 31.5e9);
  EXPECT_EQ(rows[4].held(), 31.5e9);
  EXPECT_EQ(rows[4].sent(), 42e9);
}

// Sixteen bytes a parameter, half of them the optimizer's: there is no master. Everything travels in fp32.
TEST(SevenBillionOnFourRanks, HoldAndSendFourBytesEachInFp32) {
  const std::vector<IdealRow> rows = table_of_7b(1, "fp32");
  const std::vector<double> held{112e9, 70e9, 70e9, 49e9, 28e9, 28e9};
  const std::vector<double> sent{42e9, 42e9, 63e9, 42e9, 63e9, 42e9};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].held(), held[i]) << rows[i].stage;
    EXPECT_EQ(rows[i].sent(), sent[i]) << rows[i].stage;
  }
  EXPECT_EQ(rows.front().optimizer_share(), 0.5);
  EXPECT_EQ(rows.back().gathered, 28e9);
}

// Momentum alone: 8 bytes beside a master, 4 without.
TEST(SevenBillionOnFourRanks, KeepAWordLessWithSgd) {
  PlanNumbers numbers{.parameters = 7e9, .ranks = 4, .recipe = kRecipes[0], .micro_steps = 1};
  numbers.optimizer = Method::sgd;
  EXPECT_EQ(ideal_table(kStages, numbers).front().optimizer, 56e9);
  numbers.recipe = recipe_named("fp32");
  EXPECT_EQ(ideal_table(kStages, numbers).front().optimizer, 28e9);
  EXPECT_EQ(ideal_table(kStages, numbers)[1].optimizer, 7e9);
}

TEST(LedgerTable, GivesLossAndNormALineOfTheirOwn) {
  const PlanNumbers numbers{.parameters = 7e9, .ranks = 4, .recipe = kRecipes[0], .micro_steps = 2};
  EXPECT_EQ(loss_bytes(numbers), 24);
  EXPECT_EQ(norm_bytes(numbers), 144);
  const PlanNumbers alone{.parameters = 7e9, .ranks = 1, .recipe = kRecipes[0], .micro_steps = 2};
  EXPECT_EQ(loss_bytes(alone), 0);
  EXPECT_EQ(norm_bytes(alone), 0);
  EXPECT_EQ(ideal_table(kStages, alone).front().sent(), 0);
}

// The preset `small`: 10,942,464 parameters.
const GptShape kSmall{
    .layers = 6, .width = 384, .heads = 6, .positions = 256, .vocabulary = 256, .batch = 1, .sequence = 256};

TEST(LedgerTable, IsIdealWhereNothingIsPadded) {
  const Layout layout(gpt_units(kSmall), 2);
  ASSERT_EQ(layout.parameters(), Elements{10'942'464});
  ASSERT_EQ(layout.padded(), layout.parameters());
  for (const Recipe& recipe : kRecipes) {
    const auto ideal =
        ideal_table(kStages, {.parameters = 10'942'464.0, .ranks = 2, .recipe = recipe, .micro_steps = 2});
    const auto exact = exact_table(kStages, layout, training_of(2, 2, recipe), Algorithm::direct, {});
    ASSERT_EQ(exact.size(), ideal.size());
    for (size_t i = 0; i < ideal.size(); ++i) {
      EXPECT_EQ(exact[i].stage, ideal[i].stage);
      EXPECT_EQ(static_cast<double>(total(exact[i].states).n), ideal[i].held()) << ideal[i].stage;
      EXPECT_EQ(static_cast<double>(exact[i].sent_params.n), ideal[i].sent_params) << ideal[i].stage;
      EXPECT_EQ(static_cast<double>(exact[i].sent_grads.n), ideal[i].sent_grads) << ideal[i].stage;
      EXPECT_EQ(exact[i].passes, ideal[i].passes) << ideal[i].stage;
    }
  }
}

TEST(LedgerTable, CountsThePassesOfFixedPointAsOfAnyWire) {
  const Layout layout(gpt_units(kSmall), 2);
  PlanNumbers numbers{.parameters = 10'942'464.0, .ranks = 2, .recipe = kRecipes[0], .micro_steps = 4};
  numbers.wire = GradientWire::i64;
  Training training = training_of(2, 4, kRecipes[0]);
  training.wire = GradientWire::i64;
  const auto ideal = ideal_table(kStages, numbers);
  const auto exact = exact_table(kStages, layout, training, Algorithm::direct, {});
  const std::vector<double> passes{2, 2, 3, 5, 12, 8};
  ASSERT_EQ(exact.size(), passes.size());
  for (size_t i = 0; i < passes.size(); ++i) {
    EXPECT_EQ(ideal[i].passes, passes[i]) << ideal[i].stage;
    EXPECT_EQ(exact[i].passes, passes[i]) << ideal[i].stage;
    EXPECT_EQ(static_cast<double>(exact[i].sent_grads.n), ideal[i].sent_grads) << ideal[i].stage;
  }
}

TEST(LedgerTable, NamesTheTransients) {
  const Layout layout(gpt_units(kSmall), 4);
  const HeldLines constant{{Category::activations, {5'000'000}}};
  const auto rows = exact_table(kStages, layout, training_of(4, 2), Algorithm::halving, constant);
  const Elements block = layout.unit(1).padded;
  for (const ExactRow& row : rows) {
    EXPECT_EQ(row.transient.at(Category::activations), Bytes{5'000'000}) << row.stage;
    EXPECT_EQ(row.transient.at(Category::transport), Bytes{2 * 262144}) << row.stage;
    EXPECT_EQ(row.transient.contains(Category::bucket),
              row.stage == "zero2" || row.stage.starts_with("zero3"));
    EXPECT_EQ(row.transient.contains(Category::gathered), row.stage.starts_with("zero3"));
    EXPECT_FALSE(row.transient.contains(Category::params));
    EXPECT_EQ(row.states.size(), 3U);
    EXPECT_LE(total(row.at_peak), total(row.states) + total(row.transient));
  }
  EXPECT_EQ(rows[4].transient.at(Category::gathered), block * Bytes{2});
  EXPECT_EQ(rows[4].transient.at(Category::bucket), block * Bytes{4});
  EXPECT_EQ(rows[5].transient.at(Category::gathered), layout.padded() * Bytes{2});
  EXPECT_EQ(rows[5].transient.at(Category::bucket), block * Bytes{4});
}

// ---- Which stage?

constexpr Bytes gib(int64_t n) { return {n << 30}; }

TEST(Recommendation, IsZero2WhereZero3OnlySavesMemory) {
  const std::vector<Candidate> candidates{{"zero2", {gib(58), 1000}, {}}, {"zero3", {gib(45), 850}, {}}};
  const Recommendation best = recommend(candidates, gib(80));
  EXPECT_TRUE(best.found);
  EXPECT_EQ(best.stage, "zero2");
  EXPECT_FALSE(best.with_larger_batch);
  EXPECT_EQ(best.measured.rate, 1000);
}

TEST(Recommendation, IsZero3OnceItsLargerBatchIsFaster) {
  std::vector<Candidate> candidates{{"zero2", {gib(58), 1000}, {}},
                                    {"zero3", {gib(45), 850}, {{gib(70), 1001}}}};
  Recommendation best = recommend(candidates, gib(80));
  EXPECT_EQ(best.stage, "zero3");
  EXPECT_TRUE(best.with_larger_batch);
  candidates[1].larger_batch->rate = 999;
  EXPECT_EQ(recommend(candidates, gib(80)).stage, "zero2");
  candidates[1].larger_batch = Measured{gib(81), 2000};  // does not fit
  EXPECT_EQ(recommend(candidates, gib(80)).stage, "zero2");
}

TEST(Recommendation, IsZero3WhereZero2DoesNotFit) {
  const std::vector<Candidate> candidates{{"zero2", {gib(58), 1000}, {}}, {"zero3", {gib(45), 850}, {}}};
  EXPECT_EQ(recommend(candidates, gib(50)).stage, "zero3");
  EXPECT_EQ(recommend(candidates, gib(58)).stage, "zero2");  // exactly full fits
  EXPECT_FALSE(recommend(candidates, gib(44)).found);
  EXPECT_FALSE(recommend({}, gib(80)).found);
}

TEST(Recommendation, OfEqualRatesIsTheLeaner) {
  const std::vector<Candidate> candidates{
      {"ddp", {gib(60), 900}, {}}, {"zero1", {gib(40), 900}, {}}, {"zero2", {gib(40), 900}, {}}};
  EXPECT_EQ(recommend(candidates, gib(80)).stage, "zero1");
}

}  // namespace
}  // namespace zp::theory
