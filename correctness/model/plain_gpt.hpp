// A GPT's loss in plain loops, written from the architecture's definition and sharing nothing with the
// kernels. The arithmetic is a parameter: fp64 gives values, a Tape (tape.hpp) also derivatives and rounding
// bounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/model/model.hpp"

namespace zp::test {

struct Fp64 {
  using Value = double;
  using Terms = std::vector<std::pair<double, double>>;
  double constant(double c) { return c; }
  double value(double x) { return x; }
  double dot(const Terms& terms) {
    double sum = 0;
    for (const auto& [x, y] : terms) sum += x * y;
    return sum;
  }
  double exp(double x) { return std::exp(x); }
  double log(double x) { return std::log(x); }
  double tanh(double x) { return std::tanh(x); }
  double reciprocal(double x) { return 1 / x; }
  double reciprocal_root(double x) { return 1 / std::sqrt(x); }
};

template <class A>
class PlainGpt {
 public:
  using V = typename A::Value;
  using Row = std::vector<V>;
  using Rows = std::vector<Row>;
  using Weights = std::map<std::string, Row>;  // by tensor name

  PlainGpt(A& arithmetic, const ModelConfig& config, const BatchShape& shape)
      : a_(arithmetic), config_(config), shape_(shape), one_(a_.constant(1)), minus_(a_.constant(-1)) {}

  V loss(const Weights& weights, const MicroBatch& tokens) {
    weights_ = &weights;
    Rows x;
    for (size_t r = 0; r < tokens.inputs.size(); ++r) {
      const auto position = static_cast<int64_t>(r) % shape_.sequence;
      x.push_back(add(row_of("embeddings.token.weight", tokens.inputs[r]),
                      row_of("embeddings.position.weight", position)));
    }
    for (int64_t i = 0; i < config_.layers; ++i) x = block("block." + std::to_string(i), x);
    Row losses;
    for (size_t r = 0; r < x.size(); ++r) {
      const Row logits = times(norm(x[r], "head.norm"), "head.weight", config_.vocabulary);
      losses.push_back(cross_entropy(logits, static_cast<size_t>(tokens.targets[r])));
    }
    return scaled(sum(losses), 1.0 / static_cast<double>(losses.size()));
  }

 private:
  V multiply(V x, V y) { return a_.dot({{x, y}}); }
  V scaled(V x, double c) { return multiply(x, a_.constant(c)); }
  V subtract(V x, V y) { return a_.dot({{x, one_}, {y, minus_}}); }
  V sum(const Row& row) {
    typename A::Terms terms;
    for (const V& x : row) terms.emplace_back(x, one_);
    return a_.dot(terms);
  }
  Row add(const Row& x, const Row& y) {
    Row z;
    for (size_t c = 0; c < x.size(); ++c) z.push_back(a_.dot({{x[c], one_}, {y[c], one_}}));
    return z;
  }
  V dot(const V* x, const V* y, int64_t length) {
    typename A::Terms terms;
    for (int64_t i = 0; i < length; ++i) terms.emplace_back(x[i], y[i]);
    return a_.dot(terms);
  }
  V largest(const Row& row) {
    double most = a_.value(row[0]);
    for (const V& x : row) most = std::max(most, a_.value(x));
    return a_.constant(most);  // cancels in every use, so it has no derivative
  }

  Row row_of(const std::string& table, int64_t row) {
    const V* begin = weights_->at(table).data() + row * config_.width;
    return Row(begin, begin + config_.width);
  }

  // weight (out, in) times x
  Row times(const Row& x, const std::string& weight, int64_t out) {
    const auto in = static_cast<int64_t>(x.size());
    Row y;
    for (int64_t o = 0; o < out; ++o) y.push_back(dot(x.data(), weights_->at(weight).data() + o * in, in));
    return y;
  }
  Row linear(const Row& x, const std::string& name, int64_t out) {
    return add(times(x, name + ".weight", out), weights_->at(name + ".bias"));
  }

  Row norm(const Row& x, const std::string& name) {
    const double share = 1.0 / static_cast<double>(x.size());
    const V mean = scaled(sum(x), share);
    Row centred;
    for (const V& value : x) centred.push_back(subtract(value, mean));
    const V variance = scaled(dot(centred.data(), centred.data(), config_.width), share);
    const V rstd = a_.reciprocal_root(a_.dot({{variance, one_}, {a_.constant(1e-5), one_}}));
    const Row &gain = weights_->at(name + ".weight"), &bias = weights_->at(name + ".bias");
    Row y;
    for (size_t c = 0; c < x.size(); ++c) {
      y.push_back(a_.dot({{multiply(centred[c], rstd), gain[c]}, {bias[c], one_}}));
    }
    return y;
  }

  // 0.5·x·(1 + tanh(sqrt(2/pi)·(x + 0.044715·x³)))
  V gelu(V x) {
    const V cube = multiply(multiply(x, x), x);
    const V inner = a_.dot({{x, one_}, {cube, a_.constant(0.044715)}});
    const V t = a_.tanh(scaled(inner, std::sqrt(2 / std::acos(-1.0))));
    return multiply(scaled(x, 0.5), a_.dot({{one_, one_}, {t, one_}}));
  }

  Rows block(const std::string& name, const Rows& x) {
    Rows qkv, y;
    for (const Row& row : x)
      qkv.push_back(linear(norm(row, name + ".norm1"), name + ".qkv", 3 * config_.width));
    for (size_t r = 0; r < x.size(); ++r) {
      const Row mid = add(linear(attend(qkv, r), name + ".out", config_.width), x[r]);
      Row up = linear(norm(mid, name + ".norm2"), name + ".up", 4 * config_.width);
      for (V& value : up) value = gelu(value);
      y.push_back(add(linear(up, name + ".down", config_.width), mid));
    }
    return y;
  }

  // What row r sees of its own sequence, itself included.
  Row attend(const Rows& qkv, size_t r) {
    const int64_t depth = config_.width / config_.heads;
    const size_t first = r - r % static_cast<size_t>(shape_.sequence);
    Row out;
    for (int64_t head = 0; head < config_.heads; ++head) {
      const int64_t q = head * depth, k = config_.width + q, v = 2 * config_.width + q;
      Row scores;
      for (size_t j = first; j <= r; ++j) {
        const V product = dot(qkv[r].data() + q, qkv[j].data() + k, depth);
        scores.push_back(scaled(product, 1 / std::sqrt(static_cast<double>(depth))));
      }
      const Row exponents = exponentials(scores);
      const V share = a_.reciprocal(sum(exponents));
      for (int64_t c = 0; c < depth; ++c) {
        typename A::Terms terms;
        for (size_t j = first; j <= r; ++j) {
          terms.emplace_back(multiply(exponents[j - first], share), qkv[j][static_cast<size_t>(v + c)]);
        }
        out.push_back(a_.dot(terms));
      }
    }
    return out;
  }

  Row exponentials(const Row& row) {
    const V most = largest(row);
    Row e;
    for (const V& x : row) e.push_back(a_.exp(subtract(x, most)));
    return e;
  }

  V cross_entropy(const Row& logits, size_t target) {
    const V logarithm = a_.log(sum(exponentials(logits)));
    const V normaliser = a_.dot({{logarithm, one_}, {largest(logits), one_}});
    return subtract(normaliser, logits[target]);
  }

  A& a_;
  const ModelConfig config_;
  const BatchShape shape_;
  const V one_, minus_;
  const Weights* weights_ = nullptr;
};

}  // namespace zp::test
