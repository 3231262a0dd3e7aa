// What is said of samples instead of all of them. Medians, not means: a machine that is busy with something
// else makes samples larger, never smaller.
#pragma once

#include <cstddef>
#include <vector>

namespace zp {

// The middle sample, or the mean of the middle two; 0 of none.
double median(std::vector<double> samples);

struct Summary {
  size_t count = 0;
  double least = 0, median = 0, most = 0;  // 0 of no samples
};
Summary summary_of(const std::vector<double>& samples);

}  // namespace zp
