// A real number with a bound on how far its binary32 computation may be from it. A formula written for any
// type T gives with T = float the bits, and with T = Bounded an a-priori error bound for exactly that order
// of operations: the tolerances of these tests are derived, not tuned.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace zp {

struct Bounded {
  double value = 0.0;  // exact up to fp64 rounding
  double error = 0.0;  // |computed in fp32 - value| is at most this

  Bounded() = default;
  Bounded(double exact, double within) : value(exact), error(within) {}
  // A number that is in fp32 already.
  explicit Bounded(float x) : value(x) {}
};

namespace bounded {

inline constexpr double kUnitRoundoff = 0x1p-24;
inline constexpr double kSmallest = 0x1p-150;  // half of the least subnormal
inline constexpr double kSlack = 1e-14;        // of the fp64 arithmetic here, relative

// One rounded operation whose exact result lies within `error` of `value`, `ulps` roundings wide.
inline Bounded rounded(double value, double error, double roundings = 1.0) {
  const double reach = std::abs(value) + error;
  return {value, error + roundings * kUnitRoundoff * reach + kSmallest + kSlack * reach};
}

}  // namespace bounded

inline Bounded operator+(Bounded a, Bounded b) {
  return bounded::rounded(a.value + b.value, a.error + b.error);
}
inline Bounded operator-(Bounded a, Bounded b) {
  return bounded::rounded(a.value - b.value, a.error + b.error);
}
inline Bounded operator-(Bounded a) { return {-a.value, a.error}; }

inline double product_error(Bounded a, Bounded b) {
  return std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error;
}
inline Bounded operator*(Bounded a, Bounded b) {
  return bounded::rounded(a.value * b.value, product_error(a, b));
}

inline Bounded operator/(Bounded a, Bounded b) {
  const double least = std::abs(b.value) - b.error;
  if (!(least > 0.0)) return {a.value / b.value, std::numeric_limits<double>::infinity()};
  const double quotient = a.value / b.value;
  return bounded::rounded(quotient, (a.error + std::abs(quotient) * b.error) / least);
}

inline Bounded fma(Bounded a, Bounded b, Bounded c) {
  return bounded::rounded(a.value * b.value + c.value, product_error(a, b) + c.error);
}

// Roots differ by at most the root of the difference, and by the difference over their sum.
inline Bounded sqrt(Bounded a) {
  const double root = std::sqrt(a.value);
  const double sum = root + std::sqrt(std::max(0.0, a.value - a.error));
  const double widest = std::sqrt(a.error);
  return bounded::rounded(root, sum > 0.0 ? std::min(widest, a.error / sum) : widest);
}

// exp and tanh of the contract are within 1.5 ulp (math_test), that is three roundings.
inline Bounded exp(Bounded a) {
  const double e = std::exp(a.value);
  return bounded::rounded(e, e * std::expm1(a.error), 3.0);
}
inline Bounded tanh(Bounded a) { return bounded::rounded(std::tanh(a.value), a.error, 3.0); }
inline Bounded log(Bounded a) {
  const double least = a.value - a.error;
  if (!(least > 0.0)) return {std::log(a.value), std::numeric_limits<double>::infinity()};
  return bounded::rounded(std::log(a.value), a.error / least);
}

}  // namespace zp
