// The few statistics that tables and records share.
#pragma once

#include <vector>

#include "harness/report/result.hpp"

namespace zp {

// The middle sample, or the mean of the middle two; 0 of none.
double median(std::vector<double> samples);

// Tokens per step over the median step time; 0 where nothing was timed. Never ask it of a refuted stage.
double tokens_per_s(const StageResult& stage);

}  // namespace zp
