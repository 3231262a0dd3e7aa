// The exact sum of squares: a 192-bit integer in units of 2⁻¹⁰⁰. Integer work only, so the same bits
// everywhere.
#include "kernels/norm.hpp"

#include <bit>
#include <limits>

#include "harness/base/check.hpp"

namespace zp {
namespace {

constexpr int64_t kTopLimit = int64_t{1} << 30;  // in the sixth limb: 2¹⁹⁰ units, that is 2⁹⁰
constexpr uint64_t kLimbMask = 0xffffffffU;
using Words = uint64_t[ExactWords::kWords];

bool bit_at(const Words& words, int at) { return ((words[at / 64] >> (at % 64)) & 1U) != 0; }

bool any_below(const Words& words, int at) {
  for (int w = 0; w < at / 64; ++w) {
    if (words[w] != 0) return true;
  }
  return (words[at / 64] & ((uint64_t{1} << (at % 64)) - 1)) != 0;
}

}  // namespace

void ExactSum::add(double block) {
  require(saturated() || !(block < 0.0), "a sum of squares is not negative");
  sum_.add(block);
}

std::array<int64_t, 6> ExactSum::limbs() const {
  if (saturated()) return {0, 0, 0, 0, 0, kTopLimit};
  std::array<int64_t, 6> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<int64_t>((sum_.words[i / 2] >> (32 * (i % 2))) & kLimbMask);
  }
  return out;
}

void ExactSum::add_limbs(const std::array<int64_t, 6>& limbs) {
  const std::array<int64_t, 6> mine = this->limbs();
  Words words = {};
  int64_t carry = 0;
  for (size_t i = 0; i < limbs.size(); ++i) {
    require(limbs[i] >= 0 && limbs[i] < (int64_t{1} << 53),
            "a limb is a sum of at most 2²⁰ limbs of 32 bits");
    const int64_t sum = mine[i] + limbs[i] + carry;
    if (i + 1 == limbs.size() && sum >= kTopLimit) sum_.saturated = true;
    words[i / 2] |= (static_cast<uint64_t>(sum) & kLimbMask) << (32 * (i % 2));
    carry = sum >> 32;
  }
  for (int w = 0; w < ExactWords::kWords; ++w) sum_.words[w] = saturated() ? 0 : words[w];
}

double ExactSum::value() const {
  if (saturated()) return std::numeric_limits<double>::infinity();
  int top = 191;
  while (top >= 0 && !bit_at(sum_.words, top)) --top;
  if (top < 0) return 0.0;
  uint64_t mantissa = 0;
  for (int at = top; at > top - kMantissaBits - 1; --at) {
    mantissa = 2 * mantissa + (at >= 0 && bit_at(sum_.words, at) ? 1 : 0);
  }
  int exponent = top + kExactUnit;  // of the leading bit
  const int last = top - kMantissaBits;
  if (last > 0 && bit_at(sum_.words, last - 1) && (any_below(sum_.words, last - 1) || (mantissa & 1U) != 0))
    ++mantissa;
  if (mantissa >> (kMantissaBits + 1) != 0) ++exponent;  // to a power of two: every bit of the fraction is 0
  const uint64_t fraction = mantissa & ((uint64_t{1} << kMantissaBits) - 1);
  return std::bit_cast<double>((static_cast<uint64_t>(exponent + kExponentBias) << kMantissaBits) | fraction);
}

float clip_factor(double norm, double clip) {
  if (!(clip > 0.0) || !(norm > clip)) return 1.0F;
  return static_cast<float>(clip / norm);
}

}  // namespace zp
