// Loss and every gradient of a small GPT against fp64 plain loops and their finite differences. The tolerance
// is a bound on fp32's rounding errors, derived step by step (tape.hpp).
#include <gtest/gtest.h>

#include <cmath>

#include "correctness/model/model_run.hpp"
#include "correctness/model/plain_gpt.hpp"
#include "correctness/model/tape.hpp"

namespace zp::test {
namespace {

// Twice the tape's bound: in backward the kernels round in other places than the tape, as often.
constexpr double kMargin = 2;

const ModelConfig kConfig{
    .name = "check", .layers = 2, .width = 6, .heads = 2, .positions = 7, .vocabulary = 11};
const BatchShape kShape{.batch = 2, .sequence = 5};

MicroBatch some_tokens() {
  return {.inputs = {3, 10, 3, 0, 7, 7, 1, 2, 10, 3}, .targets = {10, 3, 0, 7, 2, 1, 2, 10, 3, 5}};
}

// The weights that ModelRun gives the model, exactly.
template <class A, class Input>
typename PlainGpt<A>::Weights weights_of(Input input) {
  typename PlainGpt<A>::Weights weights;
  for (const UnitSpec& unit : model_units(kConfig)) {
    for (const TensorSpec& tensor : unit.tensors) {
      for (int64_t i = 0; i < element_count(tensor).n; ++i) {
        weights[tensor.name].push_back(input(double{widen(round_to_bf16(lively(tensor, i)))}));
      }
    }
  }
  return weights;
}

// fp64 derivative of the loss by one weight: the five-point rule, and how far it may be off.
struct Derivative {
  double value = 0, error = 0;
};

class FiniteDifferences {
 public:
  FiniteDifferences()
      : gpt_(fp64_, kConfig, kShape), weights_(weights_of<Fp64>([](double x) { return x; })) {}

  double loss() { return gpt_.loss(weights_, some_tokens()); }

  // `loss_bound` bounds the fp32 rounding error of the loss; fp64's is 2⁻²⁹ of it. What the rule itself
  // leaves out is 16 times as large at twice the distance.
  Derivative by(const std::string& tensor, size_t element, double loss_bound) {
    constexpr double kDistance = 1e-3;
    const double near = five_points(tensor, element, kDistance);
    const double far = five_points(tensor, element, 2 * kDistance);
    return {.value = near, .error = std::abs(near - far) + loss_bound * 0x1p-29 * 2 / kDistance};
  }

 private:
  double five_points(const std::string& tensor, size_t element, double h) {
    const double wide = loss_at(tensor, element, 2 * h) - loss_at(tensor, element, -2 * h);
    return (8 * (loss_at(tensor, element, h) - loss_at(tensor, element, -h)) - wide) / (12 * h);
  }
  double loss_at(const std::string& tensor, size_t element, double moved) {
    double& weight = weights_[tensor][element];
    const double before = weight;
    weight += moved;
    const double found = loss();
    weight = before;
    return found;
  }

  Fp64 fp64_;
  PlainGpt<Fp64> gpt_;
  PlainGpt<Fp64>::Weights weights_;
};

class TapedGpt {
 public:
  // Inputs are the first steps of the tape.
  TapedGpt() {
    std::vector<int> inputs;
    const auto weights = weights_of<Tape>([&](double x) { return inputs.emplace_back(tape_.input(x)); });
    PlainGpt<Tape> gpt(tape_, kConfig, kShape);
    const int loss = gpt.loss(weights, some_tokens());
    loss_ = tape_.value(loss);
    loss_bound_ = tape_.rounding_bound(loss);
    const std::vector<int> gradient = tape_.gradient(loss, inputs);
    for (const auto& [name, steps] : weights) {
      for (const int step : steps)
        gradients_[name].push_back(gradient[static_cast<size_t>(step - inputs.front())]);
    }
  }
  double loss() const { return loss_; }
  double loss_bound() const { return loss_bound_; }
  double gradient(const std::string& tensor, size_t i) const { return tape_.value(gradients_.at(tensor)[i]); }
  double bound(const std::string& tensor, size_t i) const {
    return kMargin * tape_.rounding_bound(gradients_.at(tensor)[i]);
  }

 private:
  Tape tape_;
  double loss_ = 0, loss_bound_ = 0;
  std::map<std::string, std::vector<int>> gradients_;
};

Outcome run_once(const Recipe& recipe) {
  ModelRun run(kConfig, kShape, recipe, lively);
  return run.run(0, 0, some_tokens());
}

TEST(Gpt, HasTheLossOfPlainLoopsWithinFp32Rounding) {
  const double expected = FiniteDifferences().loss();
  const TapedGpt taped;
  EXPECT_DOUBLE_EQ(taped.loss(), expected);
  EXPECT_LT(taped.loss_bound(), 1e-4 * expected);  // the bound means something
  for (const Recipe& recipe : kRecipes) {
    EXPECT_NEAR(run_once(recipe).loss, expected, kMargin * taped.loss_bound()) << recipe.name;
  }
}

// A dozen elements of every tensor.
TEST(Gpt, HasTheGradientsOfFiniteDifferencesWithinFp32Rounding) {
  const Outcome outcome = run_once(kFp32Grads);
  const TapedGpt taped;
  FiniteDifferences differences;
  double widest = 0, worst = 0;
  const Layout layout(model_units(kConfig), 1);
  for (const UnitLayout& unit : layout.units()) {
    const std::vector<float>& grads = outcome.grads[static_cast<size_t>(unit.index)];
    for (const TensorLayout& tensor : unit.tensors) {
      const std::string& name = tensor.spec.name;
      const auto length = static_cast<size_t>(tensor.in_unit.length().n);
      for (size_t i = 0; i < length; i += length / 12 + 1) {
        const float got = grads[static_cast<size_t>(tensor.in_unit.begin.n) + i];
        const Derivative expected = differences.by(name, i, taped.loss_bound());
        const double bound = taped.bound(name, i) + expected.error;
        ASSERT_NEAR(got, expected.value, bound) << name << "[" << i << "]";
        ASSERT_NEAR(taped.gradient(name, i), expected.value, expected.error) << name << "[" << i << "]";
        widest = std::max(widest, bound);
        worst = std::max(worst, std::abs(got - expected.value) / bound);
      }
    }
  }
  EXPECT_LT(widest, 1e-3);  // the bounds mean something: gradients are of the order of 0.1
  RecordProperty("worst error in bounds", std::to_string(worst));
  RecordProperty("widest bound", std::to_string(widest));
}

TEST(Gpt, RoundsEveryGradientOnceWhereTheRecipeSaysSo) {
  const Outcome exact = run_once(kFp32Grads), rounded = run_once(kBf16Grads);
  EXPECT_EQ(exact.loss, rounded.loss);
  int64_t different = 0;
  for (size_t unit = 0; unit < exact.grads.size(); ++unit) {
    ASSERT_EQ(exact.grads[unit].size(), rounded.grads[unit].size());
    for (size_t i = 0; i < exact.grads[unit].size(); ++i) {
      const float expected = widen(round_to_bf16(exact.grads[unit][i]));
      ASSERT_EQ(std::bit_cast<uint32_t>(rounded.grads[unit][i]), std::bit_cast<uint32_t>(expected))
          << "unit " << unit << ", element " << i;
      different += expected != exact.grads[unit][i];
    }
  }
  EXPECT_GT(different, 500);
}

}  // namespace
}  // namespace zp::test
