// The reference's own account of sums in fixed point (design 3.3): integer work on the bits of fp32 numbers,
// shared with no kernel.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/device/device.hpp"

namespace zp {

// x in units of 2⁻⁴⁴, rounded to nearest, ties to even; |x| < 2¹⁹.
int64_t fixed_units(float x);

// A sum over micro-batches of gradients by tensor name.
class FixedSums {
 public:
  explicit FixedSums(int micro_batches) : micro_batches_(micro_batches) {}
  // Empty, or what is wrong with the first element that fixed point does not hold.
  std::string add(const std::string& tensor, const View& gradient);
  // The sum of all, in fp32.
  void store(const std::string& tensor, const View& into) const;

 private:
  int micro_batches_;
  std::map<std::string, std::vector<int64_t>> sums_;
};

}  // namespace zp
