// What AVX2 and plain C++ share: runs shorter than eight lanes, powers of two, folds. Included by simd.hpp
// only.
#pragma once

#include <cstdint>

namespace zp::kernels::ZP_ISA {

// All ones in the first `count` lanes.
ZP_INLINE Mask first_lanes(int64_t count) { return less(lane_numbers(), splat(static_cast<int32_t>(count))); }
// The first `count` (at most kLanes) elements; the other lanes are +0 and their memory is not touched.
ZP_INLINE Floats load_part(const float* p, int64_t count) {
  float lanes[8] = {};
  for (int64_t l = 0; l < count; ++l) lanes[l] = p[l];
  return load(lanes);
}
ZP_INLINE void store_part(float* p, Floats a, int64_t count) {
  float lanes[8];
  store(lanes, a);
  for (int64_t l = 0; l < count; ++l) p[l] = lanes[l];
}
ZP_INLINE Floats load_widened_part(const uint16_t* p, int64_t count) {
  uint16_t lanes[8] = {};
  for (int64_t l = 0; l < count; ++l) lanes[l] = p[l];
  return load_widened(lanes);
}
ZP_INLINE void store_halves_part(uint16_t* p, Ints a, int64_t count) {
  uint16_t lanes[8];
  store_halves(lanes, a);
  for (int64_t l = 0; l < count; ++l) p[l] = lanes[l];
}
// y·2ⁿ for -150 ≤ n ≤ 95, `exponent` being n, and y in [1/2, 2]; rounded once: the first product is exact.
ZP_INLINE Floats times_power_of_two(Floats y, Floats /*n*/, Ints exponent) {
  const Floats power = from_bits(shift_left<23>(exponent + splat(127 + 32)));
  return (y * power) * splat(0x1p-32F);
}
// The same where the power and the result are normal numbers.
ZP_INLINE Floats times_normal_power_of_two(Floats y, Floats /*n*/, Ints exponent) {
  return y * from_bits(shift_left<23>(exponent + splat(127)));
}
// Folds 32 virtual lanes, lane l in lanes[l / 8]: l with l + 16, then 8, 4, 2, 1.
ZP_INLINE float folded(const Floats (&lanes)[4]) {
  return folded((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
}

}  // namespace zp::kernels::ZP_ISA
