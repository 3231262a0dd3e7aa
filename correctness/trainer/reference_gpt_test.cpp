// The reference's gradient against central differences of a GPT in fp64 that knows nothing but loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/base/random.hpp"
#include "harness/trainer/reference_gpt.hpp"

namespace zp {
namespace {

using Numbers = std::map<std::string, std::vector<double>>;
using Rows = std::vector<std::vector<double>>;

struct Case {
  ModelConfig model;
  BatchShape shape;
};

Case small_case(int64_t layers, int64_t width, int64_t heads, int64_t vocabulary, BatchShape shape) {
  ModelConfig model;
  model.name = "test";
  model.layers = layers;
  model.width = width;
  model.heads = heads;
  model.positions = shape.sequence + 2;  // rows that no token reaches must have no gradient
  model.vocabulary = vocabulary;
  return {model, shape};
}

MicroBatch tokens_of(const Case& c) {
  MicroBatch tokens;
  for (uint64_t i = 0; i < static_cast<uint64_t>(c.shape.rows()); ++i) {
    const auto vocabulary = static_cast<uint64_t>(c.model.vocabulary);
    tokens.inputs.push_back(static_cast<int32_t>(random_bits(1, i) % vocabulary));
    tokens.targets.push_back(static_cast<int32_t>(random_bits(2, i) % vocabulary));
  }
  return tokens;
}

// A deliberate departure, to show that the comparison would see it.
enum class Flaw { none, gelu_constant, attention_scale, no_epsilon };

// GPT-2's loss of one micro-batch, sequence by sequence.
class Plain {
 public:
  Plain(const Case& c, const Numbers& weights, Flaw flaw) : c_(c), w_(weights), flaw_(flaw) {}

  double loss(const MicroBatch& tokens) const {
    double total = 0.0;
    const auto length = static_cast<size_t>(c_.shape.sequence);
    for (size_t begin = 0; begin < tokens.inputs.size(); begin += length) {
      Rows x;
      for (size_t t = 0; t < length; ++t) x.push_back(embedded(tokens.inputs[begin + t], t));
      for (int64_t i = 0; i < c_.model.layers; ++i) x = block(x, "block." + std::to_string(i));
      for (size_t t = 0; t < length; ++t) {
        const char* const table = c_.model.tied ? "embeddings.token.weight" : "head.weight";
        const auto logits = product(table, normed(x[t], "head.norm"), {});
        double sum = 0.0;
        for (const double logit : logits) sum += std::exp(logit);
        total += std::log(sum) - logits[static_cast<size_t>(tokens.targets[begin + t])];
      }
    }
    return total / static_cast<double>(tokens.inputs.size());
  }

 private:
  size_t width() const { return static_cast<size_t>(c_.model.width); }

  std::vector<double> embedded(int32_t token, size_t position) const {
    std::vector<double> x(width());
    for (size_t j = 0; j < width(); ++j) {
      x[j] = w_.at("embeddings.token.weight")[static_cast<size_t>(token) * width() + j] +
             w_.at("embeddings.position.weight")[position * width() + j];
    }
    return x;
  }

  std::vector<double> normed(const std::vector<double>& x, const std::string& layer) const {
    const auto n = static_cast<double>(x.size());
    double mean = 0.0, variance = 0.0;
    for (const double value : x) mean += value / n;
    for (const double value : x) variance += (value - mean) * (value - mean) / n;
    const double epsilon = flaw_ == Flaw::no_epsilon ? 0.0 : static_cast<double>(1e-5F);
    std::vector<double> y;
    for (size_t j = 0; j < x.size(); ++j) {
      y.push_back((x[j] - mean) / std::sqrt(variance + epsilon) * w_.at(layer + ".weight")[j] +
                  w_.at(layer + ".bias")[j]);
    }
    return y;
  }

  std::vector<double> product(const std::string& matrix, const std::vector<double>& x,
                              const std::string& bias) const {
    const auto& w = w_.at(matrix);
    std::vector<double> y(w.size() / x.size());
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = bias.empty() ? 0.0 : w_.at(bias)[i];
      for (size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
    }
    return y;
  }

  std::vector<double> linear(const std::string& layer, const std::vector<double>& x) const {
    return product(layer + ".weight", x, layer + ".bias");
  }

  double gelu(double x) const {
    const double cubic = flaw_ == Flaw::gelu_constant ? 0.045 : 0.044715;
    return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + cubic * x * x * x)));
  }

  // What row t attends to in rows 0 … t.
  std::vector<double> attended(const Rows& qkv, size_t t) const {
    const auto heads = static_cast<size_t>(c_.model.heads);
    const size_t d = width() / heads;
    const double scale = 1.0 / std::sqrt(static_cast<double>(flaw_ == Flaw::attention_scale ? d + 1 : d));
    std::vector<double> out(width(), 0.0);
    for (size_t h = 0; h < heads; ++h) {
      std::vector<double> weight(t + 1);
      double sum = 0.0;
      for (size_t s = 0; s <= t; ++s) {
        double score = 0.0;
        for (size_t e = h * d; e < (h + 1) * d; ++e) score += qkv[t][e] * qkv[s][width() + e];
        sum += weight[s] = std::exp(score * scale);
      }
      for (size_t s = 0; s <= t; ++s) {
        for (size_t e = h * d; e < (h + 1) * d; ++e) out[e] += weight[s] / sum * qkv[s][2 * width() + e];
      }
    }
    return out;
  }

  Rows block(Rows x, const std::string& name) const {
    Rows qkv;
    for (const auto& row : x) qkv.push_back(linear(name + ".qkv", normed(row, name + ".norm1")));
    for (size_t t = 0; t < x.size(); ++t) {
      const auto mixed = linear(name + ".out", attended(qkv, t));
      for (size_t j = 0; j < width(); ++j) x[t][j] += mixed[j];
      auto hidden = linear(name + ".up", normed(x[t], name + ".norm2"));
      for (double& value : hidden) value = gelu(value);
      const auto added = linear(name + ".down", hidden);
      for (size_t j = 0; j < width(); ++j) x[t][j] += added[j];
    }
    return x;
  }

  const Case& c_;
  const Numbers& w_;
  Flaw flaw_;
};

// Five-point central differences: error h⁴/30·f⁽⁵⁾ + about 1e-16·|f|/h, with h = 2⁻¹⁰ below 1e-11·f⁽⁵⁾ and
// 1e-12.
double slope(const std::function<double(double)>& f) {
  const double h = 0x1p-10;
  return (8.0 * (f(h) - f(-h)) - (f(2.0 * h) - f(-2.0 * h))) / (12.0 * h);
}

// Weights far from their usual start, so that no term hides behind a zero bias or a gain of one.
Tensors some_weights(const Case& c, Type type, Device& device, Numbers& widened) {
  Tensors weights;
  for (const UnitSpec& unit : model_units(c.model)) {
    for (const TensorSpec& tensor : unit.tensors) {
      const int64_t length = element_count(tensor).n;
      Buffer buffer = device.acquire(Category::params, type, {length});
      std::vector<double> numbers;
      for (int64_t i = 0; i < length; ++i) {
        const float offset = tensor.name.find("norm") != std::string::npos ? 0.75F : 0.0F;
        const float exact = offset + random_normal(key_of(7, tensor.name), static_cast<uint64_t>(i), 0.3F);
        if (type == Type::f32) buffer.all().write<float>()[i] = exact;
        if (type == Type::bf16) buffer.all().write<bf16>()[i] = round_to_bf16(exact);
        const float held = type == Type::f32 ? exact : widen(round_to_bf16(exact));
        numbers.push_back(static_cast<double>(held));
      }
      widened[tensor.name] = numbers;
      weights.emplace(tensor.name, std::move(buffer));
    }
  }
  return weights;
}

// Roundings on the longest way from a weight through the loss and back: each product of a row of n terms
// counts n, a layer norm three passes over the width, the elementary functions eight; the way back is as long
// as the way there.
double roundings(const Case& c) {
  const auto w = static_cast<double>(c.model.width), rows = static_cast<double>(c.shape.rows());
  const double sequence = static_cast<double>(c.shape.sequence);
  const double block = 2 * 3 * w + (w + 1) + (w + sequence + 8) + (w + 2) + (w + 1) + 8 + (4 * w + 2);
  const double head = 3 * w + w + static_cast<double>(c.model.vocabulary) + 16;
  return 2 * (static_cast<double>(c.model.layers) * block + head) + rows;
}

// Largest difference between the reference's gradient and the slope of the plain loss, in units of the bound:
// one ulp's half for every rounding on the way, of the largest element of the tensor's gradient.
double worst_in_bounds(const Case& c, Type type, Flaw flaw) {
  const auto device = make_host_device(Fill::nan);
  kernels::HostOptions options;
  options.threads = 2;
  options.max_sequence = c.shape.sequence;
  const auto table = kernels::make_host_table(*device, options);
  const auto gpt = make_reference_gpt(c.model, c.shape, Type::f32, *device, *table);
  Numbers numbers;
  const Tensors weights = some_weights(c, type, *device, numbers);
  Tensors grads;
  for (const auto& [name, weight] : weights) {
    grads.emplace(name, device->acquire(Category::grads, Type::f32, weight.length()));
  }
  const MicroBatch tokens = tokens_of(c);
  const float loss = gpt->gradient(tokens, weights, grads);
  const double relative = roundings(c) * 0x1p-24;
  double worst = std::abs(static_cast<double>(loss) / Plain(c, numbers, flaw).loss(tokens) - 1.0) / relative;
  for (auto& [name, values] : numbers) {
    std::vector<double> slopes;
    for (double& value : values) {
      const double at = value;
      slopes.push_back(slope([&](double step) {
        value = at + step;
        return Plain(c, numbers, flaw).loss(tokens);
      }));
      value = at;
    }
    double largest = 0.0;
    for (const double s : slopes) largest = std::max(largest, std::abs(s));
    const float* got = grads.at(name).all().read<float>();
    for (size_t i = 0; i < slopes.size(); ++i) {
      const double off = std::abs(static_cast<double>(got[i]) - slopes[i]) / (largest * relative + 1e-10);
      worst = std::isnan(off) ? INFINITY : std::max(worst, off);
    }
  }
  return worst;
}

class ReferenceGptGradient : public testing::TestWithParam<Type> {};

TEST_P(ReferenceGptGradient, IsTheSlopeOfThePlainLoss) {
  EXPECT_LT(worst_in_bounds(small_case(2, 6, 2, 7, {.batch = 2, .sequence = 5}), GetParam(), Flaw::none),
            1.0);
  EXPECT_LT(worst_in_bounds(small_case(1, 9, 3, 11, {.batch = 3, .sequence = 3}), GetParam(), Flaw::none),
            1.0);
  EXPECT_LT(worst_in_bounds(small_case(1, 4, 1, 3, {.batch = 1, .sequence = 1}), GetParam(), Flaw::none),
            1.0);
}

TEST_P(ReferenceGptGradient, OfATiedTableIsTheSlopeOfBothItsUses) {
  Case c = small_case(2, 6, 2, 7, {.batch = 2, .sequence = 5});
  c.model.tied = true;
  EXPECT_LT(worst_in_bounds(c, GetParam(), Flaw::none), 1.0);
}

TEST_P(ReferenceGptGradient, IsFarFromTheSlopeOfAFlawedLoss) {
  const Case c = small_case(2, 6, 2, 7, {.batch = 2, .sequence = 5});
  EXPECT_GT(worst_in_bounds(c, GetParam(), Flaw::gelu_constant), 1.0);
  EXPECT_GT(worst_in_bounds(c, GetParam(), Flaw::attention_scale), 1.0);
  EXPECT_GT(worst_in_bounds(c, GetParam(), Flaw::no_epsilon), 1.0);
}

INSTANTIATE_TEST_SUITE_P(WeightsOf, ReferenceGptGradient, testing::Values(Type::f32, Type::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(ReferenceGpt, RefusesTokensOutsideTheVocabularyAndOtherShapes) {
  const Case c = small_case(1, 4, 1, 3, {.batch = 1, .sequence = 2});
  const auto device = make_host_device(Fill::nan);
  kernels::HostOptions options;
  options.max_sequence = c.shape.sequence;
  const auto table = kernels::make_host_table(*device, options);
  const auto gpt = make_reference_gpt(c.model, c.shape, Type::f32, *device, *table);
  EXPECT_THROW(gpt->gradient({.inputs = {0, 3}, .targets = {0, 1}}, {}, {}), Error);
  EXPECT_THROW(gpt->gradient({.inputs = {0, 1}, .targets = {0, -1}}, {}, {}), Error);
  EXPECT_THROW(gpt->gradient({.inputs = {0}, .targets = {0}}, {}, {}), Error);
  const BatchShape too_long{.batch = 1, .sequence = c.model.positions + 1};
  EXPECT_THROW(make_reference_gpt(c.model, too_long, Type::f32, *device, *table), Error);
}

}  // namespace
}  // namespace zp
