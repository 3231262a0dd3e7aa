// exp, tanh and log on IEEE-754 operations alone, so that every ISA gives the same bits; and reductions of a
// row over 32 virtual lanes. exp errs at most 1.11 ulp, tanh 1.34 (exhaustive over fp32); log is correctly
// rounded. The sequence of operations and the coefficients are the specification (design 3.1, 3.2).
#pragma once

#include "kernels/host/simd.hpp"

namespace zp::kernels::ZP_ISA {

// 2ⁿ·e^r with n = nearest integer to x/ln 2 and ln 2 split in two; a polynomial for e^r. A subnormal result
// is rounded once more, by the power of two.
ZP_INLINE Floats exp(Floats x) {
  x = smaller(larger(x, splat(-104.0F)), splat(89.0F));
  const Floats magic = splat(12582912.0F);  // 1.5·2²³: adding it rounds to an integer in the low bits
  const Floats shifted = fma(x, splat(0x1.715476p+0F), magic);
  const Floats n = shifted - magic;
  const Ints exponent = bits_of(shifted) - bits_of(magic);
  Floats r = fma(n, splat(-0x1.62e43p-1F), x);
  r = fma(n, splat(0x1.05c61p-29F), r);
  Floats q = splat(0x1.6af784p-10F);
  q = fma(q, r, splat(0x1.1232dep-7F));
  q = fma(q, r, splat(0x1.55589ap-5F));
  q = fma(q, r, splat(0x1.555494p-3F));
  q = fma(q, r, splat(0x1.fffffcp-2F));
  const Floats y = fma(r * r, q, r) + splat(1.0F);
  return times_power_of_two(y, n, exponent);
}

// Odd polynomial below 0.625, else 1 - 2/(e^2|x| + 1); the sign is copied.
ZP_INLINE Floats tanh(Floats x) {
  const Ints sign = bits_of(x) & splat(INT32_MIN);
  const Floats a = from_bits(bits_of(x) & splat(INT32_MAX));
  const Floats u = a * a;
  Floats p = splat(0x1.189a78p-9F);
  p = fma(p, u, splat(-0x1.0bfc64p-7F));
  p = fma(p, u, splat(0x1.639406p-6F));
  p = fma(p, u, splat(-0x1.b9f046p-5F));
  p = fma(p, u, splat(0x1.111076p-3F));
  p = fma(p, u, splat(-0x1.555554p-2F));
  const Floats small = fma(a * u, p, a);
  const Floats clamped = smaller(a, splat(10.0F));
  const Floats large = splat(1.0F) - splat(2.0F) / (exp(clamped + clamped) + splat(1.0F));
  const Floats magnitude = select(less(a, splat(0.625F)), small, large);
  return from_bits(bits_of(magnitude) | sign);
}

// The same bits as one lane of the vector forms.
ZP_INLINE float exp(float x) { return first(exp(splat(x))); }
ZP_INLINE float tanh(float x) { return first(tanh(splat(x))); }

// Correctly rounded natural logarithm of a finite x > 0: leading terms in double-double, rounded to odd in
// fp64 and then once to fp32. One a row, so scalar only.
inline float log(float x) {
  const auto bits =
      __builtin_bit_cast(int64_t, static_cast<double>(x));       // every fp32 above 0 is a normal fp64
  const int64_t exponent = (bits - 0x3fe6a09e667f3bcdLL) >> 52;  // m lies in [sqrt(1/2), sqrt(2))
  const auto shift = static_cast<int64_t>(static_cast<uint64_t>(exponent) << 52);
  const auto m = __builtin_bit_cast(double, bits - shift);
  const auto e = static_cast<double>(exponent);
  const double s = (m - 1.0) / (m + 1.0);
  const double u = s * s;
  double r = 0x1.0f1978c25e398p-3;
  r = __builtin_fma(r, u, 0x1.0f660e3476715p-3);
  r = __builtin_fma(r, u, 0x1.3b20314bff8e8p-3);
  r = __builtin_fma(r, u, 0x1.745ce184c6dc8p-3);
  r = __builtin_fma(r, u, 0x1.c71c724c24101p-3);
  r = __builtin_fma(r, u, 0x1.2492492438ff8p-2);
  r = __builtin_fma(r, u, 0x1.9999999999d15p-2);
  r = __builtin_fma(r, u, 0x1.5555555555555p-1);
  const double d = m + 1.0;
  const double d_low = (m - d) + 1.0;
  double s_low = __builtin_fma(-s, d, m - 1.0);
  s_low = __builtin_fma(-s, d_low, s_low) / d;
  double low = __builtin_fma(s * u, r, 2.0 * s_low);
  low = __builtin_fma(e, 0x1.cf79abc9e3b3ap-40, low);
  const double e_high = e * 0x1.62e42fefap-1;
  const double high = e_high + 2.0 * s;
  low = low + (e == 0.0 ? 0.0 : (e_high - high) + 2.0 * s);
  const double sum = high + low;
  const double error = (high - sum) + low;
  auto sum_bits = __builtin_bit_cast(int64_t, sum);
  if (error != 0.0 && (sum_bits & 1) == 0) sum_bits += (error > 0.0) == (sum > 0.0) ? 1 : -1;
  return static_cast<float>(__builtin_bit_cast(double, sum_bits));
}

// How a term of a row reduction reads its elements: all lanes, or the last few.
struct Whole {
  ZP_INLINE Floats operator()(const float* p) const { return load(p); }
};
struct Part {
  int64_t count;
  ZP_INLINE Floats operator()(const float* p) const { return load_part(p, count); }
};

// Element i goes to lane i mod 32, each lane from +0 in order of i; then lanes are folded (l, l+16), 8, 4,
// 2, 1. term(read, i, lanes) returns `lanes` with elements i … i+kLanes-1 taken in; it reads memory through
// `read` only.
//   sum:  row_lanes(n, [&](auto read, int64_t i, Floats lanes) { return lanes + read(x + i); })
template <class Term>
ZP_INLINE float row_lanes(int64_t n, Term term) {
  constexpr int64_t kVectors = 32 / kLanes;
  Floats lanes[kVectors];
  for (int64_t j = 0; j < kVectors; ++j) lanes[j] = splat(0.0F);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int64_t j = 0; j < kVectors; ++j) lanes[j] = term(Whole{}, i + kLanes * j, lanes[j]);
  }
  for (int64_t j = 0; i < n; ++j, i += kLanes) {
    if (i + kLanes <= n) {
      lanes[j] = term(Whole{}, i, lanes[j]);
    } else {
      lanes[j] = select(first_lanes(n - i), term(Part{n - i}, i, lanes[j]), lanes[j]);
    }
  }
  return folded(lanes);
}

inline float row_sum(const float* x, int64_t n) {
  return row_lanes(n, [x](auto read, int64_t i, Floats lanes) { return lanes + read(x + i); });
}

// The largest of n ≥ 1 elements of x·scale. Either zero gives +0, so the order of comparison leaves no trace.
inline float row_max(const float* x, int64_t n, float scale) {
  const Floats factor = splat(scale);
  Floats lanes = splat(x[0]) * factor, others = lanes;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    lanes = larger(lanes, load(x + i) * factor);
    others = larger(others, load(x + i + kLanes) * factor);
  }
  for (; i + kLanes <= n; i += kLanes) lanes = larger(lanes, load(x + i) * factor);
  if (i < n) others = select(first_lanes(n - i), larger(others, load_part(x + i, n - i) * factor), others);
  return largest(larger(lanes, others)) + 0.0F;
}

}  // namespace zp::kernels::ZP_ISA
