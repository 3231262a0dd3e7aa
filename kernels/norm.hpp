// The gradient norm of design 3.5: squares of a block of 64 elements are summed in fp64, ascending; each
// block's sum is rounded (to nearest even) to a multiple of 2⁻¹⁰⁰ and added to a 192-bit integer. Exact in
// any order, so every stage and every world size gets the same bits.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/exact_words.hpp"

namespace zp {

inline constexpr int64_t kNormBlock = 64;

// A non-negative multiple of 2⁻¹⁰⁰ below 2⁹⁰, or "saturated" (the running sum was not finite or reached 2⁹⁰),
// which is sticky.
class ExactSum {
 public:
  // Adds one block's sum of squares, rounded to a multiple of 2⁻¹⁰⁰.
  void add(double block);
  // Six 32-bit limbs, least significant first, each carried in an int64 so that they may be summed over up to
  // 2²⁰ ranks; a saturated sum is sent as 2⁹⁰.
  std::array<int64_t, 6> limbs() const;
  // Adds what limbs() gave on another rank.
  void add_limbs(const std::array<int64_t, 6>& limbs);
  bool saturated() const { return sum_.saturated; }
  // The sum, rounded to nearest even fp64. Infinity when saturated.
  double value() const;
  friend bool operator==(const ExactSum&, const ExactSum&) = default;

 private:
  ExactWords sum_;
};

// Factor that brings a gradient of this norm down to `clip`: clip/norm where norm > clip, else 1; fp64, then
// fp32. clip = 0 means no clipping.
float clip_factor(double norm, double clip);

}  // namespace zp
