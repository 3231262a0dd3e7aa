// The rates that tables and records share.
#pragma once

#include <optional>
#include <vector>

#include "harness/measure/statistics.hpp"
#include "harness/report/result.hpp"

namespace zp {

// Tokens per step over the median step time; 0 where nothing was timed. Never ask it of a refuted stage.
double tokens_per_s(const StageResult& stage);

// Of every timed step.
std::vector<double> times_of(const std::vector<StepSample>& samples);

// Of all timed steps together.
struct Transfers {
  double exposed_s = 0;  // median of a step
  double overlap = 0;    // hidden over exposed and hidden; 0 where nothing was transferred
};
// None where it was not measured, or nothing was timed.
std::optional<Transfers> transfers_of(const std::vector<StepSample>& samples);

}  // namespace zp
