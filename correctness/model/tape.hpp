// Records a computation in fp64 so that it can say, for any value on it, how far fp32 arithmetic may be off:
// the sum over all steps of |derivative of the value by the step| times the step's own rounding error. To
// first order in u this bounds every order of summation (Linnainmaa, BIT 16, 1976; Higham, Accuracy and
// Stability, 4.2). Derivatives are recorded as further steps, so gradients have bounds too.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

namespace zp::test {

class Tape {
 public:
  using Value = int;  // number of a step
  using Terms = std::vector<std::pair<int, int>>;

  int input(double value) { return record(value, 0, {}); }
  // Rounded to fp32 where it is no fp32 number.
  int constant(double c) {
    const bool exact = static_cast<double>(static_cast<float>(c)) == c;
    return record(c, exact ? 0 : kUnit * std::abs(c), {});
  }
  double value(int step) const { return steps_[static_cast<size_t>(step)].value; }

  // Sum of products, in any order, products fused or not: |error| <= n·u·sum of |products|.
  int dot(const Terms& terms) {
    double sum = 0, size = 0;
    std::vector<Edge> edges;
    for (const auto& [x, y] : terms) {
      sum += value(x) * value(y);
      size += std::abs(value(x) * value(y));
      edges.push_back({.from = x, .derivative = y});
      edges.push_back({.from = y, .derivative = x});
    }
    return record(sum, static_cast<double>(terms.size()) * kUnit * size, std::move(edges));
  }
  int exp(int x) {
    const int y = function(x, std::exp(value(x)));
    steps_[static_cast<size_t>(y)].edges.front().derivative = y;
    return y;
  }
  int log(int x) {
    const int derivative = reciprocal(x);
    return function(x, std::log(value(x)), derivative);
  }
  int tanh(int x) {
    const int y = function(x, std::tanh(value(x)));
    const int square = dot({{y, y}}), one = constant(1);
    return with_derivative(y, dot({{one, one}, {square, constant(-1)}}));
  }
  int reciprocal(int x) {
    const int y = function(x, 1 / value(x));
    return with_derivative(y, dot({{dot({{y, y}}), constant(-1)}}));
  }
  int reciprocal_root(int x) {
    const int y = function(x, 1 / std::sqrt(value(x)));
    const int cube = dot({{dot({{y, y}}), y}});
    return with_derivative(y, dot({{cube, constant(-0.5)}}));
  }

  // Steps that hold the derivatives of `result` by `inputs`.
  std::vector<int> gradient(int result, const std::vector<int>& inputs) {
    std::vector<Terms> uses(static_cast<size_t>(result) + 1);  // (derivative by the user, user's derivative)
    std::vector<int> by(static_cast<size_t>(result) + 1, -1);
    uses.back() = {{constant(1), constant(1)}};
    for (int step = result; step >= 0; --step) {
      const Terms& terms = uses[static_cast<size_t>(step)];
      if (terms.empty()) continue;
      by[static_cast<size_t>(step)] = dot(terms);
      for (const Edge& edge : steps_[static_cast<size_t>(step)].edges) {
        uses[static_cast<size_t>(edge.from)].emplace_back(by[static_cast<size_t>(step)], edge.derivative);
      }
    }
    std::vector<int> found;
    for (const int input : inputs) {
      const int derivative = by[static_cast<size_t>(input)];
      found.push_back(derivative >= 0 ? derivative : constant(0));
    }
    return found;
  }

  // How far fp32 may be off at `result`.
  double rounding_bound(int result) const {
    std::vector<double> by(static_cast<size_t>(result) + 1);
    by.back() = 1;
    double bound = 0;
    for (size_t step = by.size(); step-- > 0;) {
      if (by[step] == 0) continue;
      bound += std::abs(by[step]) * steps_[step].rounding;
      for (const Edge& edge : steps_[step].edges) {
        by[static_cast<size_t>(edge.from)] += by[step] * value(edge.derivative);
      }
    }
    return bound;
  }

  static constexpr double kUnit = 0x1p-24;  // of fp32

 private:
  struct Edge {
    int from = 0, derivative = 0;  // both steps
  };
  struct Step {
    double value = 0, rounding = 0;
    std::vector<Edge> edges;
  };

  int record(double value, double rounding, std::vector<Edge> edges) {
    steps_.push_back({value, rounding, std::move(edges)});
    return static_cast<int>(steps_.size()) - 1;
  }
  // fp32 functions are within 2 ulp, that is 4u.
  int function(int x, double y, int derivative = 0) {
    return record(y, 4 * kUnit * std::abs(y), {{.from = x, .derivative = derivative}});
  }
  int with_derivative(int y, int derivative) {
    steps_[static_cast<size_t>(y)].edges.front().derivative = derivative;
    return y;
  }

  std::vector<Step> steps_;
};

}  // namespace zp::test
