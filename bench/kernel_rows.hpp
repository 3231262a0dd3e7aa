// The rows of the table of kernels as benchmarks, each beside what bounds it: the peak of fused multiply-adds
// for products, a copy of as many bytes for the rest. A row is measured only after its bits were seen to
// equal those of the portable kernels.
#pragma once

#include <optional>

#include "bench/kernel_costs.hpp"
#include "bench/peaks.hpp"
#include "bench/side_by_side.hpp"
#include "kernels/kernels.hpp"

namespace zp::bench {

enum class Question {
  products,  // gemm and attention
  rows,      // over activations
  states,    // over parameters, gradients and moments
};

void add_kernel_rows(Question question, const Options& options);

// The peaks of fused multiply-adds among the contenders.
class ProductPeaks {
 public:
  explicit ProductPeaks(SideBySide& contenders);
  // GFLOP/s of contender 0, which does `operations` a call, and its share of the peaks.
  void report(benchmark::State& state, const SideBySide& contenders, double operations) const;

 private:
  struct Entry {
    FmaPeak peak;
    size_t contender = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace zp::bench
