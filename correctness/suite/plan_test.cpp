// zeroproof plan with a model's exact shapes: its numbers are those of layout and theory, its text fits.
#include "harness/suite/plan.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "harness/report/tables.hpp"

namespace zp {
namespace {

PlanOptions options_for(const char* model, int ranks, int micro_steps) {
  PlanOptions options;
  options.model = model_preset(model);
  options.ranks = ranks;
  options.micro_steps = micro_steps;
  return options;
}

TEST(Plan, CountsTheParametersOfAPresetFromItsShapes) {
  const PlanResult plan = make_plan(options_for("small", 4, 2));
  EXPECT_EQ(plan.exact.parameters.n, 10'942'464);
  EXPECT_EQ(plan.numbers.parameters, 10'942'464.0);
  EXPECT_EQ(plan.exact.micro_batches, 8);
  EXPECT_EQ(plan.exact.sequence, 256);
  ASSERT_EQ(plan.exact.units.size(), 8U);
  EXPECT_EQ(plan.exact.units.front().name, "embeddings");
  EXPECT_EQ(plan.exact.units.back().name, "head");
}

TEST(Plan, PadsEveryUnitToWholeSlices) {
  const PlanResult plan = make_plan(options_for("tiny", 3, 1));
  int64_t parameters = 0, padded = 0;
  for (const PlanUnit& unit : plan.exact.units) {
    EXPECT_EQ(unit.slice.n % 64, 0);
    EXPECT_EQ(unit.padded.n, 3 * unit.slice.n);
    EXPECT_GE(unit.padded.n, unit.parameters.n);
    EXPECT_LT(unit.padded.n, unit.parameters.n + 3 * 64);
    parameters += unit.parameters.n;
    padded += unit.padded.n;
  }
  EXPECT_EQ(parameters, plan.exact.parameters.n);
  EXPECT_EQ(padded, plan.exact.padded.n);
  EXPECT_GT(padded, parameters) << "this preset's units are no multiple of 64";
}

TEST(Plan, HoldsAndSendsWhatItsPaddedLengthsSay) {
  const PlanResult plan = make_plan(options_for("tiny", 3, 1));  // bf16-fp32grad: 2 + 4 + 12 bytes
  const int64_t padded = plan.exact.padded.n, slices = padded / 3;
  const theory::ExactRow& ddp = plan.exact.rows.at(0);
  EXPECT_EQ(theory::total(ddp.states).n, 18 * padded);
  EXPECT_EQ(ddp.sent_grads.n, 2 * (padded - slices) * 4);
  const theory::ExactRow& zero3 = plan.exact.rows.at(4);
  EXPECT_EQ(theory::total(zero3.states).n, 18 * slices);
  EXPECT_EQ(zero3.sent_params.n, 2 * (padded - slices) * 2);
  EXPECT_EQ(zero3.sent_grads.n, (padded - slices) * 4);
  EXPECT_EQ(zero3.passes, 3);
}

// A tied head holds and sends no table of its own, and zero3 gathers the embeddings for it.
TEST(Plan, OfATiedModelGathersTheEmbeddingsTwiceMore) {
  PlanOptions options = options_for("tiny", 4, 1);
  options.model->tied = true;
  const PlanResult plan = make_plan(options);
  EXPECT_EQ(plan.exact.parameters.n, 99'225 - 256 * 45);
  const theory::ExactRow& zero3 = plan.exact.rows.at(4);
  const int64_t slices = plan.exact.padded.n / 4, embeddings = plan.exact.units.front().slice.n;
  EXPECT_EQ(zero3.sent_params.n, 2 * 3 * 2 * (slices + embeddings));
  EXPECT_EQ(zero3.sent_grads.n, 3 * 4 * slices);
  EXPECT_EQ(plan.exact.rows.at(5).sent_params.n, 3 * 2 * slices) << "kept, they are there";
}

TEST(Plan, OfGpt2FitsTwoRanks) {
  PlanOptions options = options_for("gpt2", 2, 4);
  const PlanResult plan = make_plan(options);
  EXPECT_EQ(plan.exact.parameters.n, 124'439'808);
  EXPECT_LT(2 * theory::total(plan.exact.rows.at(4).at_peak).n, int64_t{24} << 30);
}

class PlanText : public testing::TestWithParam<std::tuple<const char*, int, int>> {};

TEST_P(PlanText, StaysWithinAHundredColumnsAndNamesEveryTransient) {
  const auto& [model, ranks, micro_steps] = GetParam();
  const PlanResult plan = make_plan(options_for(model, ranks, micro_steps));
  const std::string text = plan_table(plan);
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) EXPECT_LE(line.size(), 100U) << line;
  for (const theory::ExactRow& row : plan.exact.rows) {
    for (const auto& [category, bytes] : row.transient) {
      EXPECT_NE(text.find(std::string("\n").append(name_of(category)) + " "), std::string::npos)
          << name_of(category);
      EXPECT_NE(text.find(std::to_string(bytes.n)), std::string::npos) << name_of(category);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, PlanText,
                         testing::Combine(testing::Values("tiny", "small", "gpt2", "synthetic"),
                                          testing::Values(1, 3, 4, 1000), testing::Values(1, 5)));

}  // namespace
}  // namespace zp
