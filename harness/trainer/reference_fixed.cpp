// Sums in fixed point for the reference.
#include "harness/trainer/reference_fixed.hpp"

#include <bit>
#include <cmath>

#include "harness/base/check.hpp"
#include "harness/device/host_access.hpp"

namespace zp {
namespace {

constexpr int kFloatMantissaBits = 23;
constexpr int kFractionBits = 44;
constexpr int kFloatExponentBias = 127;

}  // namespace

int64_t fixed_units(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const int exponent = static_cast<int>((bits >> kFloatMantissaBits) & 0xffU);
  if (exponent == 0) return 0;  // below 2⁻¹²⁶
  const uint64_t mantissa = (bits & ((1U << kFloatMantissaBits) - 1)) | (1U << kFloatMantissaBits);
  // |x| = mantissa·2^(exponent - 127 - 23)
  const int shift = exponent - kFloatExponentBias - kFloatMantissaBits + kFractionBits;
  uint64_t units = 0;
  if (shift >= 0) {
    require(shift < 63 - kFloatMantissaBits, "a number in fixed point is below 2^19");
    units = mantissa << shift;
  } else if (shift > -kFloatMantissaBits - 2) {
    const uint64_t rest = mantissa & ((uint64_t{1} << -shift) - 1);
    const uint64_t half = uint64_t{1} << (-shift - 1);
    units = mantissa >> -shift;
    if (rest > half || (rest == half && (units & 1U) != 0)) ++units;
  }
  return (bits >> 31) != 0 ? -static_cast<int64_t>(units) : static_cast<int64_t>(units);
}

std::string FixedSums::add(const std::string& tensor, const View& gradient) {
  std::vector<int64_t>& sum = sums_[tensor];
  sum.resize(static_cast<size_t>(gradient.length().n));
  const HostView<float> g(gradient);
  for (size_t i = 0; i < sum.size(); ++i) {
    if (!(std::fabs(static_cast<double>(g[i])) * micro_batches_ < kFixedPointBound)) {
      return "gradient of " + tensor + ", element " + std::to_string(i) + ", is " + std::to_string(g[i]) +
             ": --wire i64 holds less than 2^19/" + std::to_string(micro_batches_);
    }
    sum[i] += fixed_units(g[i]);
  }
  return "";
}

void FixedSums::store(const std::string& tensor, const View& into) const {
  const std::vector<int64_t>& sum = sums_.at(tensor);
  std::vector<float> out(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    const double units = static_cast<double>(sum[i]);
    out[i] = static_cast<float>(std::ldexp(units, -kFractionBits));
  }
  write_from_host<float>(into, out);
}

}  // namespace zp
