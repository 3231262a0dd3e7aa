// Numbers of the optimizer and the step, the same on every rank.
#pragma once

#include <cstdint>

#include "harness/base/type.hpp"
#include "harness/layout/fold.hpp"
#include "harness/layout/schedule.hpp"

namespace zp {

// fp32 words per parameter that the optimizer keeps: a master where the recipe has one, m and v.
constexpr int optimizer_words(const Recipe& recipe) { return (has_master(recipe) ? 1 : 0) + 2; }

struct Training {
  Recipe recipe;
  Batching batching;
  Schedule schedule;
  int keep = 0;  // zero3: so many units, the last ones, stay gathered from forward to backward
  uint64_t seed = 1;
  double clip = 1.0;  // largest gradient norm; 0: no clipping
  float lr = 3e-4F, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, weight_decay = 0.1F;
};

}  // namespace zp
