// exp, tanh and log on IEEE-754 operations alone, so that every ISA gives the same bits; and reductions of a
// row over 32 virtual lanes. exp errs at most 1.11 ulp, tanh 1.34 (exhaustive over fp32); log is correctly
// rounded. The sequence of operations and the coefficients are the specification (design 3.1, 3.2).
#pragma once

#include "kernels/host/simd.hpp"

namespace zp::kernels::ZP_ISA {

// The larger; `a` where neither is.
ZP_INLINE F32x8 larger(F32x8 a, F32x8 b) { return select(less(a, b), b, a); }
ZP_INLINE F32x8 smaller(F32x8 a, F32x8 b) { return select(less(b, a), b, a); }

// 2ⁿ·e^r with n = nearest integer to x/ln 2 and ln 2 split in two; a polynomial for e^r. 2ⁿ is applied in two
// exact halves, so a subnormal result is rounded once more, in the last product only.
ZP_INLINE F32x8 exp(F32x8 x) {
  x = smaller(larger(x, splat(-104.0F)), splat(89.0F));
  const F32x8 magic = splat(12582912.0F);  // 1.5·2²³: adding it rounds to an integer in the low bits
  const F32x8 shifted = fma(x, splat(0x1.715476p+0F), magic);
  const F32x8 n = shifted - magic;
  const I32x8 exponent = bits_of(shifted) - bits_of(magic);
  F32x8 r = fma(n, splat(-0x1.62e43p-1F), x);
  r = fma(n, splat(0x1.05c61p-29F), r);
  F32x8 q = splat(0x1.6af784p-10F);
  q = fma(q, r, splat(0x1.1232dep-7F));
  q = fma(q, r, splat(0x1.55589ap-5F));
  q = fma(q, r, splat(0x1.555494p-3F));
  q = fma(q, r, splat(0x1.fffffcp-2F));
  const F32x8 y = fma(r * r, q, r) + splat(1.0F);
  const I32x8 half = shift_right<1>(exponent);
  const I32x8 rest = exponent - half;
  const F32x8 first_power = from_bits(shift_left<23>(half + splat(127)));
  const F32x8 second_power = from_bits(shift_left<23>(rest + splat(127)));
  return (y * first_power) * second_power;
}

// Odd polynomial below 0.625, else 1 - 2/(e^2|x| + 1); the sign is copied.
ZP_INLINE F32x8 tanh(F32x8 x) {
  const I32x8 sign = bits_of(x) & splat(INT32_MIN);
  const F32x8 a = from_bits(bits_of(x) & splat(INT32_MAX));
  const F32x8 u = a * a;
  F32x8 p = splat(0x1.189a78p-9F);
  p = fma(p, u, splat(-0x1.0bfc64p-7F));
  p = fma(p, u, splat(0x1.639406p-6F));
  p = fma(p, u, splat(-0x1.b9f046p-5F));
  p = fma(p, u, splat(0x1.111076p-3F));
  p = fma(p, u, splat(-0x1.555554p-2F));
  const F32x8 small = fma(a * u, p, a);
  const F32x8 clamped = smaller(a, splat(10.0F));
  const F32x8 large = splat(1.0F) - splat(2.0F) / (exp(clamped + clamped) + splat(1.0F));
  const F32x8 magnitude = select(less(a, splat(0.625F)), small, large);
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

// How a term of a row reduction reads its elements: all eight lanes, or the last few.
struct Whole {
  ZP_INLINE F32x8 operator()(const float* p) const { return load(p); }
};
struct Part {
  int64_t count;
  ZP_INLINE F32x8 operator()(const float* p) const { return load_part(p, count); }
};

// Element i goes to lane i mod 32, each lane from +0 in order of i; then lanes are folded (l, l+16), 8, 4,
// 2, 1. term(read, i, lanes) returns `lanes` with elements i … i+7 taken in; it reads memory through `read`
// only.
//   sum:  row_lanes(n, [&](auto read, int64_t i, F32x8 lanes) { return lanes + read(x + i); })
template <class Term>
ZP_INLINE float row_lanes(int64_t n, Term term) {
  F32x8 lanes[4] = {splat(0.0F), splat(0.0F), splat(0.0F), splat(0.0F)};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int64_t j = 0; j < 4; ++j) lanes[j] = term(Whole{}, i + 8 * j, lanes[j]);
  }
  for (int64_t j = 0; i < n; ++j, i += 8) {
    if (i + 8 <= n) {
      lanes[j] = term(Whole{}, i, lanes[j]);
    } else {
      lanes[j] = select(first_lanes(n - i), term(Part{n - i}, i, lanes[j]), lanes[j]);
    }
  }
  float folded[8];
  store(folded, (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
  for (int half = 4; half >= 1; half /= 2) {
    for (int l = 0; l < half; ++l) folded[l] = folded[l] + folded[l + half];
  }
  return folded[0];
}

inline float row_sum(const float* x, int64_t n) {
  return row_lanes(n, [x](auto read, int64_t i, F32x8 lanes) { return lanes + read(x + i); });
}

// The largest of n ≥ 1 elements. Either zero gives +0, so the order of comparison leaves no trace.
inline float row_max(const float* x, int64_t n) {
  float best = x[0];
  int64_t i = 0;
  if (n >= 8) {
    F32x8 lanes = load(x);
    for (i = 8; i + 8 <= n; i += 8) lanes = larger(lanes, load(x + i));
    float all[8];
    store(all, lanes);
    for (const float lane : all) best = best < lane ? lane : best;
  }
  for (; i < n; ++i) best = best < x[i] ? x[i] : best;
  return best + 0.0F;
}

}  // namespace zp::kernels::ZP_ISA
