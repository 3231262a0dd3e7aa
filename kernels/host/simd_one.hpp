// One lane in plain C++, for host and GPU: what the formulas are made of where a thread has one element.
// Included by simd.hpp only.
#pragma once

#include <cmath>
#include <cstdint>

namespace zp::kernels::ZP_ISA {

inline constexpr int64_t kLanes = 1;

struct Floats {
  float v;
};
struct Ints {
  int32_t v;
};
using Mask = Ints;  // all ones where true

ZP_INLINE Floats load(const float* p) { return {*p}; }
ZP_INLINE void store(float* p, Floats a) { *p = a.v; }
ZP_INLINE Floats splat(float x) { return {x}; }
ZP_INLINE Ints splat(int32_t x) { return {x}; }
ZP_INLINE Floats fma(Floats a, Floats b, Floats c) { return {::fmaf(a.v, b.v, c.v)}; }
ZP_INLINE Floats operator+(Floats a, Floats b) { return {a.v + b.v}; }
ZP_INLINE Floats operator-(Floats a, Floats b) { return {a.v - b.v}; }
ZP_INLINE Floats operator*(Floats a, Floats b) { return {a.v * b.v}; }
ZP_INLINE Floats operator/(Floats a, Floats b) { return {a.v / b.v}; }
ZP_INLINE Floats sqrt(Floats a) { return {::sqrtf(a.v)}; }
ZP_INLINE Ints bits_of(Floats a) { return {__builtin_bit_cast(int32_t, a.v)}; }
ZP_INLINE Floats from_bits(Ints a) { return {__builtin_bit_cast(float, a.v)}; }
// Unsigned, because sums and shifts wrap.
ZP_INLINE uint32_t raw(Ints a) { return static_cast<uint32_t>(a.v); }
ZP_INLINE Ints wrapped(uint32_t x) { return {static_cast<int32_t>(x)}; }
ZP_INLINE Ints operator+(Ints a, Ints b) { return wrapped(raw(a) + raw(b)); }
ZP_INLINE Ints operator-(Ints a, Ints b) { return wrapped(raw(a) - raw(b)); }
ZP_INLINE Ints operator&(Ints a, Ints b) { return {a.v & b.v}; }
ZP_INLINE Ints operator|(Ints a, Ints b) { return {a.v | b.v}; }
template <int n>
ZP_INLINE Ints shift_left(Ints a) {
  return wrapped(raw(a) << n);
}
template <int n>
ZP_INLINE Ints shift_right_zeros(Ints a) {
  return wrapped(raw(a) >> n);
}
ZP_INLINE Mask less(Floats a, Floats b) { return {a.v < b.v ? -1 : 0}; }
ZP_INLINE Mask is_nan(Floats a) { return {a.v != a.v ? -1 : 0}; }
ZP_INLINE Floats select(Mask mask, Floats yes, Floats no) { return mask.v != 0 ? yes : no; }
ZP_INLINE Ints select(Mask mask, Ints yes, Ints no) { return mask.v != 0 ? yes : no; }

// The larger, the smaller; `a` where neither is.
ZP_INLINE Floats larger(Floats a, Floats b) { return select(less(a, b), b, a); }
ZP_INLINE Floats smaller(Floats a, Floats b) { return select(less(b, a), b, a); }

// As in simd_eight.hpp.
ZP_INLINE Floats times_power_of_two(Floats y, Floats /*n*/, Ints exponent) {
  const Floats power = from_bits(shift_left<23>(exponent + splat(127 + 32)));
  return (y * power) * splat(0x1p-32F);
}
ZP_INLINE Floats times_normal_power_of_two(Floats y, Floats /*n*/, Ints exponent) {
  return y * from_bits(shift_left<23>(exponent + splat(127)));
}

// No vector here is doubled (simd_twice.hpp).
template <class Operation>
ZP_INLINE Floats halves(Operation operation, Floats y, Floats n, Ints exponent) {
  return operation(y, n, exponent);
}

}  // namespace zp::kernels::ZP_ISA
