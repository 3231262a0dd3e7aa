// Finite differences of an fp64 function, with an estimate of their own error.
#pragma once

#include <cmath>
#include <numeric>
#include <vector>

namespace zp {

inline std::vector<double> widened_to_fp64(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

inline double inner_product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct Slopes {
  std::vector<double> value, error;
};

// Central differences of four points: the error falls with the fourth power of the step, so half the step
// tells how large it was.
template <class F>
Slopes slopes(const std::vector<double>& at, const F& f) {
  Slopes out;
  std::vector<double> moved = at;
  for (size_t i = 0; i < at.size(); ++i) {
    const auto value_at = [&](double step) {
      moved[i] = at[i] + step;
      return f(moved);
    };
    const auto slope = [&](double h) {
      return (8.0 * (value_at(h) - value_at(-h)) - (value_at(2.0 * h) - value_at(-2.0 * h))) / (12.0 * h);
    };
    const double coarse = slope(0x1p-9), fine = slope(0x1p-10);
    moved[i] = at[i];
    out.value.push_back(fine);
    // Beside the step's error, the rounding of f itself (some 64 operations deep) over the step.
    out.error.push_back(std::abs(fine - coarse) + 64.0 * 0x1p-53 / 0x1p-10 * (1.0 + std::abs(f(at))));
  }
  return out;
}

}  // namespace zp
