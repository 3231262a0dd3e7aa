// What a stage promises, as data: the columns of the table in design 2. Closed forms for traffic, memory and
// work are functions of these traits, so a stage's theory is one row. Strategies never see it.
#pragma once

#include <string_view>

#include "harness/layout/fold.hpp"

namespace zp::theory {

enum class Held { whole, slice };
// When a rank that holds slices of the parameters has them whole.
enum class Gather {
  never,          // ddp: whole and always current
  after_step,     // zero1, zero2: updated slices are gathered once a step
  every_use,      // zero3: before every forward and backward use, dropped after it
  every_forward,  // zero3-keep: before the forward use, kept until the backward use is over
};

struct Stage {
  std::string_view name;
  Held params, grads, optimizer;
  Gather gather;
  Reduction reduction;
  bool all_reduces;  // the whole averaged gradient is kept (all-reduce), not just the slice (reduce-scatter)
};

}  // namespace zp::theory
