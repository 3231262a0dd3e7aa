// What is said of samples instead of all of them.
#include "harness/measure/statistics.hpp"

#include <algorithm>

namespace zp {

double median(std::vector<double> samples) {
  if (samples.empty()) return 0.0;
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2.0;
}

Summary summary_of(const std::vector<double>& samples) {
  if (samples.empty()) return {};
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
  return {.count = samples.size(), .least = *least, .median = median(samples), .most = *most};
}

}  // namespace zp
