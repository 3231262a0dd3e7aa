// The rates that tables and records share.
#include "harness/report/statistics.hpp"

#include <algorithm>

namespace zp {

double tokens_per_s(const StageResult& stage) {
  const double time_s = median(stage.step_times_s);
  return time_s > 0.0 ? static_cast<double>(stage.tokens_per_step) / time_s : 0.0;
}

std::vector<double> times_of(const std::vector<StepSample>& samples) {
  std::vector<double> times;
  for (const StepSample& sample : samples) times.push_back(sample.time_s);
  return times;
}

std::optional<Transfers> transfers_of(const std::vector<StepSample>& samples) {
  if (samples.empty() || !std::ranges::all_of(samples, &StepSample::transfers_timed)) return std::nullopt;
  std::vector<double> exposed;
  double all = 0, hidden = 0;
  for (const StepSample& sample : samples) {
    exposed.push_back(sample.exposed_s);
    all += sample.exposed_s + sample.hidden_s;
    hidden += sample.hidden_s;
  }
  return Transfers{.exposed_s = median(exposed), .overlap = all > 0 ? hidden / all : 0.0};
}

}  // namespace zp
