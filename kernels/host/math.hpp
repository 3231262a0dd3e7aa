// exp, tanh and log on IEEE-754 operations alone, so that every ISA gives the same bits; and reductions of a
// row over 32 virtual lanes. exp errs at most 1.11 ulp, tanh 1.34 (exhaustive over fp32); log is correctly
// rounded. The sequence of operations and the coefficients are the specification (design 3.1, 3.2).
#pragma once

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

// How a term of a row reduction reads its elements: all lanes of a vector or of two, or the last few.
struct Whole {
  ZP_INLINE Floats operator()(const float* p) const { return load(p); }
};
struct Pair {
  ZP_INLINE Twice<Floats> operator()(const float* p) const { return {load(p), load(p + kLanes)}; }
};
struct Part {
  int64_t count;
  ZP_INLINE Floats operator()(const float* p) const { return load_part(p, count); }
};

// As Part, of a row that has room for whole vectors: its missing lanes read as anything.
struct Front {
  int64_t count;
  ZP_INLINE Floats operator()(const float* p) const { return load(p); }
};

// Element i goes to lane i mod 32, each lane from +0 in order of i; then lanes are folded (l, l+16), 8, 4,
// 2, 1. term(read, i, lanes) returns `lanes` with the elements from i on taken in, as many as it has lanes;
// it reads memory through `read` only.
//   sum:  row_lanes(n, [&](auto read, int64_t i, auto lanes) { return lanes + read(x + i); })
template <class Last = Part, class Term>
ZP_INLINE float row_lanes(int64_t n, Term term) {
  constexpr int64_t kVectors = 32 / kLanes;
  Twice<Floats> pairs[kVectors / 2];  // apart from `lanes`: what a variable indexes is kept in memory
  for (int64_t j = 0; j < kVectors / 2; ++j) pairs[j] = {splat(0.0F), splat(0.0F)};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int64_t j = 0; j < kVectors / 2; ++j) pairs[j] = term(Pair{}, i + 2 * kLanes * j, pairs[j]);
  }
  Floats lanes[kVectors];
  for (int64_t j = 0; j < kVectors / 2; ++j) {
    lanes[2 * j] = pairs[j].one;
    lanes[2 * j + 1] = pairs[j].two;
  }
  for (int64_t j = 0; i < n; ++j, i += kLanes) {
    if (i + kLanes <= n) {
      lanes[j] = term(Whole{}, i, lanes[j]);
    } else {
      lanes[j] = select(first_lanes(n - i), term(Last{n - i}, i, lanes[j]), lanes[j]);
    }
  }
  return folded(lanes);
}

// Two such sums at once: term(read, i, lanes) takes one vector into both halves of `lanes`.
template <class Term>
ZP_INLINE Twice<float> row_lanes_twice(int64_t n, Term term) {
  constexpr int64_t kVectors = 32 / kLanes;
  Twice<Floats> sums[kVectors];
  for (int64_t j = 0; j < kVectors; ++j) sums[j] = {splat(0.0F), splat(0.0F)};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int64_t j = 0; j < kVectors; ++j) sums[j] = term(Whole{}, i + kLanes * j, sums[j]);
  }
  Floats ones[kVectors], twos[kVectors];
  for (int64_t j = 0; j < kVectors; ++j) {
    ones[j] = sums[j].one;
    twos[j] = sums[j].two;
  }
  for (int64_t j = 0; i < n; ++j, i += kLanes) {
    const int64_t count = n - i < kLanes ? n - i : kLanes;
    const Twice<Floats> old{ones[j], twos[j]};
    const Twice<Floats> taken = count == kLanes ? term(Whole{}, i, old) : term(Part{count}, i, old);
    ones[j] = select(first_lanes(count), taken.one, ones[j]);
    twos[j] = select(first_lanes(count), taken.two, twos[j]);
  }
  return {folded(ones), folded(twos)};
}

inline float row_sum(const float* x, int64_t n) {
  return row_lanes(n, [x](auto read, int64_t i, auto lanes) { return lanes + read(x + i); });
}

// The largest of n ≥ 1 elements of x·scale, scale > 0: rounding keeps order, so that one product is enough.
// Either zero gives +0, so the order of comparison leaves no trace.
template <class Last = Part>
inline float row_max(const float* x, int64_t n, float scale) {
  Twice<Floats> lanes{splat(x[0]), splat(x[0])};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) lanes = larger(lanes, Pair{}(x + i));
  for (; i + kLanes <= n; i += kLanes) lanes.one = larger(lanes.one, load(x + i));
  if (i < n) lanes.two = select(first_lanes(n - i), larger(lanes.two, Last{n - i}(x + i)), lanes.two);
  return largest(larger(lanes.one, lanes.two)) * scale + 0.0F;
}

}  // namespace zp::kernels::ZP_ISA
