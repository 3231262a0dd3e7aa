// Gradients in 64-bit fixed point of unit 2⁻⁴⁴ (design 3.3), one element at a time, for host and GPU alike.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/base/host_device.hpp"
#include "harness/base/type.hpp"

namespace zp {

inline constexpr double kFixedUnits = 0x1p44;  // of 1

// Whether |x|·terms < 2¹⁹, so that no sum of `terms` such elements wraps. False for NaN.
ZP_HOST_DEVICE inline bool fits_fixed(float x, double terms) {
  using std::fabs;
  return fabs(static_cast<double>(x)) * terms < kFixedPointBound;
}

// rint(x·2⁴⁴), ties to even. The product is exact; a sum's rounding is the one to a whole number.
ZP_HOST_DEVICE inline int64_t to_fixed(float x) {
  using std::fabs;
  constexpr double kRounder = 0x1.8p52;     // added to a number below 2⁵¹, leaves whole numbers only
  constexpr double kRoundedBelow = 0x1p51;  // above it, every fp32 is whole
  const double units = static_cast<double>(x) * kFixedUnits;
  const double rounded = (units + kRounder) - kRounder;
  return static_cast<int64_t>(fabs(units) < kRoundedBelow ? rounded : units);
}

// Rounded to nearest even twice: to fp64, and to fp32.
ZP_HOST_DEVICE inline float from_fixed(int64_t z) {
  return static_cast<float>(static_cast<double>(z) * (1.0 / kFixedUnits));
}

// As unsigned numbers: sums that wrap on the way do no harm where the last one does not.
ZP_HOST_DEVICE inline int64_t sum_fixed(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace zp
