// The synthetic model: gradients are small dyadic numbers, different at every (step, micro-batch, element),
// and nothing else happens.
#include <gtest/gtest.h>

#include <cmath>

#include "correctness/model/model_run.hpp"

namespace zp::test {
namespace {

// The whole model's gradient, in logical order.
std::vector<float> gradient(ModelRun& run, int step, int number) {
  std::vector<float> all;
  for (const auto& unit : run.run(step, number, {}).grads) all.insert(all.end(), unit.begin(), unit.end());
  return all;
}

ModelRun synthetic_run(const Recipe& recipe, int world) {
  return {model_preset("synthetic"), {}, recipe, lively, Fill::nan, world};
}

TEST(Synthetic, HasUnitsThatCutUnevenly) {
  const Layout layout(model_units(model_preset("synthetic")), 1);
  bool one_over = false, fewer_than_ranks = false, single = false;
  for (const UnitLayout& unit : layout.units()) {
    EXPECT_NE(unit.length.n % 64, 0) << unit.name;
    one_over = one_over || (unit.tensors.size() == 1 && unit.length.n > 64 && unit.length.n % 64 == 1);
    fewer_than_ranks = fewer_than_ranks || (unit.length.n > 1 && unit.length.n < 8);
    single = single || unit.length.n == 1;
  }
  EXPECT_TRUE(one_over);
  EXPECT_TRUE(fewer_than_ranks);
  EXPECT_TRUE(single);
}

TEST(Synthetic, GivesSmallDyadicGradients) {
  ModelRun run = synthetic_run(kFp32Grads, 3);
  double sum = 0;
  const std::vector<float> all = gradient(run, 2, 5);
  for (const float g : all) {
    ASSERT_LE(std::abs(g), 1.0F);
    ASSERT_EQ(g * 8, std::nearbyint(g * 8));
    sum += double{g};
  }
  // |g| <= 1, so a mean of n independent values about 0 has a deviation of at most 1/sqrt(n).
  EXPECT_LT(std::abs(sum), 6 * std::sqrt(static_cast<double>(all.size())));
}

// Two independent values out of 17 agree with chance 1/17. A count of n such agreements has a deviation of at
// most sqrt(n)/2; six of them would be no accident.
void expect_unrelated(const std::vector<float>& a, const std::vector<float>& b, const std::string& which) {
  ASSERT_EQ(a.size(), b.size());
  double equal = 0;
  for (size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i];
  const auto n = static_cast<double>(a.size());
  EXPECT_LT(equal, n / 17 + 6 * std::sqrt(n) / 2) << which;
}

TEST(Synthetic, DiffersAtEveryStepMicroBatchAndElement) {
  ModelRun run = synthetic_run(kFp32Grads, 3);
  const std::vector<float> base = gradient(run, 0, 0);
  ASSERT_GT(base.size(), 1500U);
  for (int other = 1; other < 12; ++other) {
    expect_unrelated(base, gradient(run, 0, other), "micro-batch " + std::to_string(other));
    expect_unrelated(base, gradient(run, other, 0), "step " + std::to_string(other));
  }
  expect_unrelated(gradient(run, 1, 2), gradient(run, 2, 1), "step and micro-batch swapped");
  for (const size_t shift : {1, 3, 29, 64, 193}) {
    const auto at = static_cast<std::ptrdiff_t>(shift);
    expect_unrelated({base.begin() + at, base.end()}, {base.begin(), base.end() - at},
                     "elements " + std::to_string(shift) + " apart");
  }
  EXPECT_EQ(gradient(run, 0, 0), base);
}

TEST(Synthetic, IsTheSameInEveryRecipeAndWorld) {
  ModelRun alone = synthetic_run(kFp32Grads, 1);
  const std::vector<float> expected = gradient(alone, 3, 4);
  for (const Recipe& recipe : kRecipes) {
    for (const int world : {1, 2, 3, 4, 7, 8}) {
      ModelRun run = synthetic_run(recipe, world);
      EXPECT_EQ(gradient(run, 3, 4), expected) << recipe.name << ", world " << world;
      for (const Surrounded& grads : run.grads()) EXPECT_TRUE(grads.untouched_around());
    }
  }
}

// Keeps the calls; computes nothing.
class KeepingTable final : public kernels::Table {
 public:
  void run(const kernels::Call& call) override { calls.push_back(call); }
  std::vector<kernels::Call> calls;
};

TEST(Synthetic, MakesOneCallPerUnitAndOnlyInBackward) {
  const auto device = make_host_device(Fill::nan);
  KeepingTable table;
  const Layout layout(model_units(model_preset("synthetic")), 2);
  const auto model = make_model(model_preset("synthetic"), {}, kBf16Grads, 9, *device, table);
  model->begin(6, 7, {});
  for (const UnitLayout& unit : layout.units()) {
    const Surrounded weights(*device, Category::params, Type::bf16, unit);
    const Surrounded grads(*device, Category::grads, Type::bf16, unit);
    table.calls.clear();
    model->forward(unit.index, weights.whole);
    EXPECT_TRUE(table.calls.empty());
    model->backward(unit.index, weights.whole, grads.whole);
    ASSERT_EQ(table.calls.size(), 1U);
    const auto& call = std::get<kernels::SyntheticGradient>(table.calls.front());
    EXPECT_EQ(call.key, synthetic_key(9, 6, 7));
    EXPECT_EQ(call.first, unit.logical_begin.n);
    EXPECT_EQ(call.grads.length(), unit.length);
  }
}

TEST(Synthetic, LossIsDyadicAndItsOwn) {
  const float loss = synthetic_loss(1, 0, 0);
  EXPECT_EQ(loss, synthetic_loss(1, 0, 0));
  int equal = 0;
  for (int number = 1; number < 100; ++number) {
    const float other = synthetic_loss(1, 0, number);
    EXPECT_EQ(other * 8, std::nearbyint(other * 8));
    EXPECT_TRUE(other >= 0 && other <= 8);
    equal += other == loss;
  }
  EXPECT_LT(equal, 10);
}

}  // namespace
}  // namespace zp::test
