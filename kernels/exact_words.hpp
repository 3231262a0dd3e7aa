// The integer behind an ExactSum (kernels/norm.hpp), for host and GPU alike: 192 bits in units of 2⁻¹⁰⁰.
// Integer work only; sums are exact, so they may be added in any order.
#pragma once

#include <cstdint>

#include "harness/base/host_device.hpp"

namespace zp {

inline constexpr int kExactUnit = -100;  // exponent of two
inline constexpr int kMantissaBits = 52;
inline constexpr int kExponentBias = 1023;

// x/2^shift, rounded to nearest, ties to even; x < 2⁵³, shift > 0.
ZP_HOST_DEVICE inline uint64_t shift_right_rounded(uint64_t x, int shift) {
  if (shift > kMantissaBits + 1) return 0;
  const uint64_t quotient = x >> shift;
  const uint64_t rest = x & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  return quotient + (rest > half || (rest == half && (quotient & 1U) != 0) ? 1 : 0);
}

// Below 2¹⁹⁰ units, that is 2⁹⁰, or saturated, which is sticky.
struct ExactWords {
  static constexpr int kWords = 3;
  uint64_t words[kWords] = {};  // least significant first; all zero when saturated
  bool saturated = false;

  // Adds one block's sum of squares, ≥ +0 or NaN, rounded to a multiple of 2⁻¹⁰⁰.
  ZP_HOST_DEVICE void add(double block) {
    if (saturated) return;
    if (!(block < 0x1p90)) return saturate();
    // A non-negative finite double is mantissa·2^exponent.
    const auto bits = __builtin_bit_cast(uint64_t, block);
    const uint64_t fraction = bits & ((uint64_t{1} << kMantissaBits) - 1);
    const int biased = static_cast<int>(bits >> kMantissaBits) & 0x7ff;
    const uint64_t mantissa = biased == 0 ? fraction : fraction | (uint64_t{1} << kMantissaBits);
    const int shift = (biased == 0 ? 1 : biased) - kExponentBias - kMantissaBits - kExactUnit;
    if (shift < 0) {
      add_at(0, shift_right_rounded(mantissa, -shift));
    } else {
      add_at(shift / 64, mantissa << (shift % 64));
      if (shift % 64 > 0) add_at(shift / 64 + 1, mantissa >> (64 - shift % 64));
    }
    if ((words[kWords - 1] >> 62) != 0) saturate();  // both summands were below 2¹⁹⁰: nothing was carried out
  }

  friend bool operator==(const ExactWords&, const ExactWords&) = default;

 private:
  ZP_HOST_DEVICE void saturate() {
    for (uint64_t& word : words) word = 0;
    saturated = true;
  }

  // words += x·2^(64·word), below 2¹⁹².
  ZP_HOST_DEVICE void add_at(int word, uint64_t x) {
    for (; x != 0 && word < kWords; ++word) {
      words[word] += x;
      x = words[word] < x ? 1 : 0;
    }
  }
};

}  // namespace zp
