// The exact sum of squares: a 192-bit integer in units of 2⁻¹⁰⁰. Integer work only, so the same bits
// everywhere.
#include "kernels/norm.hpp"

#include <bit>
#include <limits>

#include "harness/base/check.hpp"

namespace zp {
namespace {

constexpr int kUnitExponent = -100;
constexpr int kMantissaBits = 52;
constexpr int kExponentBias = 1023;
constexpr int64_t kTopLimit = int64_t{1} << 30;  // in the sixth limb: 2¹⁹⁰ units, that is 2⁹⁰
constexpr uint64_t kLimbMask = 0xffffffffU;
using Words = std::array<uint64_t, 3>;
__extension__ using Wide = unsigned __int128;

// A non-negative finite double is mantissa·2^exponent.
struct Parts {
  uint64_t mantissa = 0;
  int exponent = 0;
};

Parts parts_of(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  const uint64_t fraction = bits & ((uint64_t{1} << kMantissaBits) - 1);
  const int biased = static_cast<int>(bits >> kMantissaBits) & 0x7ff;
  if (biased == 0) return {fraction, 1 - kExponentBias - kMantissaBits};
  return {fraction | (uint64_t{1} << kMantissaBits), biased - kExponentBias - kMantissaBits};
}

// x/2^shift, rounded to nearest, ties to even; x < 2⁵³.
uint64_t shift_right_rounded(uint64_t x, int shift) {
  if (shift > kMantissaBits + 1) return 0;
  const uint64_t quotient = x >> shift;
  const uint64_t rest = x & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  return quotient + (rest > half || (rest == half && (quotient & 1U) != 0) ? 1 : 0);
}

// words += x·2^(64·word), below 2¹⁹².
void add_at(Words& words, size_t word, Wide x) {
  for (; x != 0 && word < words.size(); ++word) {
    x += words[word];
    words[word] = static_cast<uint64_t>(x);
    x >>= 64;
  }
}

bool bit_at(const Words& words, int at) {
  return ((words[static_cast<size_t>(at / 64)] >> (at % 64)) & 1U) != 0;
}

bool any_below(const Words& words, int at) {
  for (int w = 0; w < at / 64; ++w) {
    if (words[static_cast<size_t>(w)] != 0) return true;
  }
  return (words[static_cast<size_t>(at / 64)] & ((uint64_t{1} << (at % 64)) - 1)) != 0;
}

}  // namespace

void ExactSum::add(double block) {
  if (saturated_) return;
  require(!(block < 0.0), "a sum of squares is not negative");
  if (!(block < 0x1p90)) {
    saturated_ = true;
    words_ = {};
    return;
  }
  const Parts parts = parts_of(block);
  const int shift = parts.exponent - kUnitExponent;
  if (shift >= 0) {
    add_at(words_, static_cast<size_t>(shift / 64), Wide{parts.mantissa} << (shift % 64));
  } else {
    add_at(words_, 0, shift_right_rounded(parts.mantissa, -shift));
  }
  test_range();  // both summands are below 2¹⁹⁰ units, so nothing was carried out
}

std::array<int64_t, 6> ExactSum::limbs() const {
  if (saturated_) return {0, 0, 0, 0, 0, kTopLimit};
  std::array<int64_t, 6> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<int64_t>((words_[i / 2] >> (32 * (i % 2))) & kLimbMask);
  }
  return out;
}

void ExactSum::add_limbs(const std::array<int64_t, 6>& limbs) {
  const std::array<int64_t, 6> mine = this->limbs();
  words_ = {};
  int64_t carry = 0;
  for (size_t i = 0; i < limbs.size(); ++i) {
    require(limbs[i] >= 0 && limbs[i] < (int64_t{1} << 53),
            "a limb is a sum of at most 2²⁰ limbs of 32 bits");
    const int64_t sum = mine[i] + limbs[i] + carry;
    if (i + 1 == limbs.size() && sum >= kTopLimit) saturated_ = true;
    words_[i / 2] |= (static_cast<uint64_t>(sum) & kLimbMask) << (32 * (i % 2));
    carry = sum >> 32;
  }
  if (saturated_) words_ = {};
}

void ExactSum::test_range() {
  if ((words_[2] >> 62) == 0) return;
  saturated_ = true;
  words_ = {};
}

double ExactSum::value() const {
  if (saturated_) return std::numeric_limits<double>::infinity();
  int top = 191;
  while (top >= 0 && !bit_at(words_, top)) --top;
  if (top < 0) return 0.0;
  uint64_t mantissa = 0;
  for (int at = top; at > top - kMantissaBits - 1; --at) {
    mantissa = 2 * mantissa + (at >= 0 && bit_at(words_, at) ? 1 : 0);
  }
  int exponent = top + kUnitExponent;  // of the leading bit
  const int last = top - kMantissaBits;
  if (last > 0 && bit_at(words_, last - 1) && (any_below(words_, last - 1) || (mantissa & 1U) != 0))
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
