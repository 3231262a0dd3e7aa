// What this machine can do at best, measured in the same run as what is compared with it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace zp::bench {

// One call of a loop of fused multiply-adds in registers.
struct FmaPeak {
  int lanes = 0;              // of fp32 in a register
  double operations = 0;      // floating-point operations of one call
  std::function<void()> run;  // empty where the processor lacks it
};
FmaPeak fma_peak_avx2();
FmaPeak fma_peak_avx512();

// Copies one half of its memory to the other: bytes() are read and written in one call.
class Copy {
 public:
  explicit Copy(double bytes);
  double bytes() const { return 2.0 * static_cast<double>(half_); }
  void operator()();

 private:
  size_t half_;
  std::vector<char> from_, to_;
};

}  // namespace zp::bench
