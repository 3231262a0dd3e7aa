// The few statistics that tables and records share.
#include "harness/report/statistics.hpp"

#include <algorithm>

namespace zp {

double median(std::vector<double> samples) {
  if (samples.empty()) return 0.0;
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2.0;
}

double tokens_per_s(const StageResult& stage) {
  const double time_s = median(stage.step_times_s);
  return time_s > 0.0 ? static_cast<double>(stage.tokens_per_step) / time_s : 0.0;
}

}  // namespace zp
