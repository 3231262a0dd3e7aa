// exp, tanh, log and GELU on IEEE-754 operations alone, so that every ISA and the GPU give the same bits. exp
// errs at most 1.11 ulp, tanh 1.34 (exhaustive over fp32); log is correctly rounded. The sequence of
// operations and the coefficients are the specification (design 3.1). On a GPU a vector has one lane.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/host/simd.hpp"

namespace zp::kernels::ZP_ISA {

// times(y, n, n as an integer) = y·2ⁿ where e^x = y·2ⁿ: n is the integer nearest to x/ln 2, ln 2 split in
// two; a polynomial for y.
template <class F, class Times>
ZP_INLINE F exp_by(F x, Times times) {
  const Floats magic = splat(12582912.0F);  // 1.5·2²³: adding it rounds to an integer in the low bits
  const F shifted = fma(x, splat(0x1.715476p+0F), magic);
  const F n = shifted - magic;
  F r = fma(n, splat(-0x1.62e43p-1F), x);
  r = fma(n, splat(0x1.05c61p-29F), r);
  F q = fma(r, splat(0x1.6af784p-10F), splat(0x1.1232dep-7F));
  q = fma(q, r, splat(0x1.55589ap-5F));
  q = fma(q, r, splat(0x1.555494p-3F));
  q = fma(q, r, splat(0x1.fffffcp-2F));
  const F y = fma(r * r, q, r) + splat(1.0F);
  return halves(times, y, n, bits_of(shifted) - bits_of(magic));
}

// For x ≤ 64; a softmax asks for x ≤ 0. A subnormal result is rounded once more, by the power of two.
template <class F>
ZP_INLINE F exp(F x) {
  return exp_by(larger(x, splat(-104.0F)),
                [](Floats y, Floats n, Ints exponent) { return times_power_of_two(y, n, exponent); });
}

// Odd polynomial below 0.625, else 1 - 2/(e^2|x| + 1); the sign is copied.
template <class F>
ZP_INLINE F tanh(F x) {
  const auto sign = bits_of(x) & splat(INT32_MIN);
  const F a = from_bits(bits_of(x) & splat(INT32_MAX));
  const F u = a * a;
  F p = fma(u, splat(0x1.189a78p-9F), splat(-0x1.0bfc64p-7F));
  p = fma(p, u, splat(0x1.639406p-6F));
  p = fma(p, u, splat(-0x1.b9f046p-5F));
  p = fma(p, u, splat(0x1.111076p-3F));
  p = fma(p, u, splat(-0x1.555554p-2F));
  const F small = fma(a * u, p, a);
  const F clamped = smaller(a, splat(10.0F));
  const F power = exp_by(clamped + clamped, [](Floats y, Floats n, Ints exponent) {
    return times_normal_power_of_two(y, n, exponent);
  });
  const F large = splat(1.0F) - splat(2.0F) / (power + splat(1.0F));
  const F magnitude = select(less(a, splat(0.625F)), small, large);
  return from_bits(bits_of(magnitude) | sign);
}

// The same bits as one lane of the vector forms.
ZP_INLINE float exp(float x) { return first(exp(splat(x))); }
ZP_INLINE float tanh(float x) { return first(tanh(splat(x))); }

// Correctly rounded natural logarithm of a finite x > 0: leading terms in double-double, rounded to odd in
// fp64 and then once to fp32. One a row, so scalar only.
ZP_HOST_DEVICE inline float log(float x) {
  const auto bits =
      __builtin_bit_cast(int64_t, static_cast<double>(x));       // every fp32 above 0 is a normal fp64
  const int64_t exponent = (bits - 0x3fe6a09e667f3bcdLL) >> 52;  // m lies in [sqrt(1/2), sqrt(2))
  const auto shift = static_cast<int64_t>(static_cast<uint64_t>(exponent) << 52);
  const auto m = __builtin_bit_cast(double, bits - shift);
  const auto e = static_cast<double>(exponent);
  const double s = (m - 1.0) / (m + 1.0);
  const double u = s * s;
  double r = 0x1.0f1978c25e398p-3;
  r = ::fma(r, u, 0x1.0f660e3476715p-3);
  r = ::fma(r, u, 0x1.3b20314bff8e8p-3);
  r = ::fma(r, u, 0x1.745ce184c6dc8p-3);
  r = ::fma(r, u, 0x1.c71c724c24101p-3);
  r = ::fma(r, u, 0x1.2492492438ff8p-2);
  r = ::fma(r, u, 0x1.9999999999d15p-2);
  r = ::fma(r, u, 0x1.5555555555555p-1);
  const double d = m + 1.0;
  const double d_low = (m - d) + 1.0;
  double s_low = ::fma(-s, d, m - 1.0);
  s_low = ::fma(-s, d_low, s_low) / d;
  double low = ::fma(s * u, r, 2.0 * s_low);
  low = ::fma(e, 0x1.cf79abc9e3b3ap-40, low);
  const double e_high = e * 0x1.62e42fefap-1;
  const double high = e_high + 2.0 * s;
  low = low + (e == 0.0 ? 0.0 : (e_high - high) + 2.0 * s);
  const double sum = high + low;
  const double error = (high - sum) + low;
  auto sum_bits = __builtin_bit_cast(int64_t, sum);
  if (error != 0.0 && (sum_bits & 1) == 0) sum_bits += (error > 0.0) == (sum > 0.0) ? 1 : -1;
  return static_cast<float>(__builtin_bit_cast(double, sum_bits));
}

// tanh(sqrt(2/π)·(x + 0.044715·x³))
template <class F>
ZP_INLINE F gelu_tanh(F x) {
  return tanh(fma((x * x) * x, splat(0.044715F), x) * splat(0.7978846F));
}

template <class F>
ZP_INLINE F gelu(F x) {
  return (splat(0.5F) * x) * (splat(1.0F) + gelu_tanh(x));
}

template <class F>
ZP_INLINE F gelu_derivative(F x) {
  const auto t = gelu_tanh(x);
  const auto slope = fma(splat(0.134145F) * x, x, splat(1.0F)) * splat(0.7978846F);
  const auto steep = (splat(0.5F) * x) * fma(splat(0.0F) - t, t, splat(1.0F));
  return fma(steep, slope, splat(0.5F) * (splat(1.0F) + t));
}

}  // namespace zp::kernels::ZP_ISA
