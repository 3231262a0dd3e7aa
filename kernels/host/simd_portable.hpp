// Eight lanes in plain C++. Included by simd.hpp only.
#pragma once

#include <cstdint>

namespace zp::kernels::ZP_ISA {

inline constexpr int64_t kLanes = 8;

struct Floats {
  float v[8];
};
struct Ints {
  int32_t v[8];
};

template <class To, class Lane>
ZP_INLINE To each_lane(Lane lane) {
  To to;
  for (int l = 0; l < 8; ++l) to.v[l] = lane(l);
  return to;
}

ZP_INLINE Floats load(const float* p) {
  return each_lane<Floats>([&](int l) { return p[l]; });
}
ZP_INLINE void store(float* p, Floats a) {
  for (int l = 0; l < 8; ++l) p[l] = a.v[l];
}
ZP_INLINE Floats splat(float x) {
  return each_lane<Floats>([&](int) { return x; });
}
ZP_INLINE Floats fma(Floats a, Floats b, Floats c) {
  return each_lane<Floats>([&](int l) { return __builtin_fmaf(a.v[l], b.v[l], c.v[l]); });
}
ZP_INLINE Floats accumulate(Floats a, Floats b, Floats c) { return fma(a, b, c); }
ZP_INLINE Floats operator+(Floats a, Floats b) {
  return each_lane<Floats>([&](int l) { return a.v[l] + b.v[l]; });
}
ZP_INLINE Floats operator-(Floats a, Floats b) {
  return each_lane<Floats>([&](int l) { return a.v[l] - b.v[l]; });
}
ZP_INLINE Floats operator*(Floats a, Floats b) {
  return each_lane<Floats>([&](int l) { return a.v[l] * b.v[l]; });
}
ZP_INLINE Floats operator/(Floats a, Floats b) {
  return each_lane<Floats>([&](int l) { return a.v[l] / b.v[l]; });
}
ZP_INLINE Floats sqrt(Floats a) {
  return each_lane<Floats>([&](int l) { return __builtin_sqrtf(a.v[l]); });
}
// Lane by lane: of whole vectors, g++ 12 for aarch64 reads the bits before the floats are stored.
ZP_INLINE Ints bits_of(Floats a) {
  return each_lane<Ints>([&](int l) { return __builtin_bit_cast(int32_t, a.v[l]); });
}
ZP_INLINE Floats from_bits(Ints a) {
  return each_lane<Floats>([&](int l) { return __builtin_bit_cast(float, a.v[l]); });
}
ZP_INLINE Floats to_float(Ints a) {
  return each_lane<Floats>([&](int l) { return static_cast<float>(a.v[l]); });
}
ZP_INLINE Ints load(const int32_t* p) {
  return each_lane<Ints>([&](int l) { return p[l]; });
}
ZP_INLINE void store(int32_t* p, Ints a) {
  for (int l = 0; l < 8; ++l) p[l] = a.v[l];
}
ZP_INLINE Ints splat(int32_t x) {
  return each_lane<Ints>([&](int) { return x; });
}
// Unsigned, because sums and shifts wrap.
ZP_INLINE uint32_t raw(int32_t x) { return static_cast<uint32_t>(x); }
ZP_INLINE int32_t wrapped(uint32_t x) { return static_cast<int32_t>(x); }
ZP_INLINE Ints operator+(Ints a, Ints b) {
  return each_lane<Ints>([&](int l) { return wrapped(raw(a.v[l]) + raw(b.v[l])); });
}
ZP_INLINE Ints operator-(Ints a, Ints b) {
  return each_lane<Ints>([&](int l) { return wrapped(raw(a.v[l]) - raw(b.v[l])); });
}
ZP_INLINE Ints operator&(Ints a, Ints b) {
  return each_lane<Ints>([&](int l) { return a.v[l] & b.v[l]; });
}
ZP_INLINE Ints operator|(Ints a, Ints b) {
  return each_lane<Ints>([&](int l) { return a.v[l] | b.v[l]; });
}
ZP_INLINE Ints operator^(Ints a, Ints b) {
  return each_lane<Ints>([&](int l) { return a.v[l] ^ b.v[l]; });
}
template <int n>
ZP_INLINE Ints shift_left(Ints a) {
  return each_lane<Ints>([&](int l) { return wrapped(raw(a.v[l]) << n); });
}
template <int n>
ZP_INLINE Ints shift_right(Ints a) {
  return each_lane<Ints>([&](int l) { return a.v[l] >> n; });
}
template <int n>
ZP_INLINE Ints shift_right_zeros(Ints a) {
  return each_lane<Ints>([&](int l) { return wrapped(raw(a.v[l]) >> n); });
}
using Mask = Ints;  // all ones where true
ZP_INLINE Mask less(Floats a, Floats b) {
  return each_lane<Mask>([&](int l) { return a.v[l] < b.v[l] ? -1 : 0; });
}
ZP_INLINE Mask less(Ints a, Ints b) {
  return each_lane<Mask>([&](int l) { return a.v[l] < b.v[l] ? -1 : 0; });
}
ZP_INLINE Mask is_nan(Floats a) {
  return each_lane<Ints>([&](int l) { return a.v[l] != a.v[l] ? -1 : 0; });
}
ZP_INLINE Floats select(Mask mask, Floats yes, Floats no) {
  return each_lane<Floats>([&](int l) { return mask.v[l] != 0 ? yes.v[l] : no.v[l]; });
}
ZP_INLINE Ints select(Mask mask, Ints yes, Ints no) {
  return each_lane<Ints>([&](int l) { return mask.v[l] != 0 ? yes.v[l] : no.v[l]; });
}
ZP_INLINE Floats load_widened(const uint16_t* p) {
  return from_bits(each_lane<Ints>([&](int l) { return wrapped(uint32_t{p[l]} << 16); }));
}
ZP_INLINE void store_halves(uint16_t* p, Ints a) {
  for (int l = 0; l < 8; ++l) p[l] = static_cast<uint16_t>(raw(a.v[l]));
}
ZP_INLINE Ints lane_numbers() {
  return each_lane<Ints>([](int l) { return l; });
}

// The larger, the smaller; `a` where neither is.
ZP_INLINE Floats larger(Floats a, Floats b) { return select(less(a, b), b, a); }
ZP_INLINE Floats smaller(Floats a, Floats b) { return select(less(b, a), b, a); }

// The largest lane, none being NaN.
ZP_INLINE float largest(Floats a) {
  float lanes[8];
  store(lanes, a);
  for (int half = 4; half >= 1; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] = lanes[l] < lanes[l + half] ? lanes[l + half] : lanes[l];
  }
  return lanes[0];
}
// Folds the lanes: l with l + 4, then 2, then 1.
ZP_INLINE float folded(Floats a) {
  float lanes[8];
  store(lanes, a);
  for (int half = 4; half >= 1; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] = lanes[l] + lanes[l + half];
  }
  return lanes[0];
}

}  // namespace zp::kernels::ZP_ISA
