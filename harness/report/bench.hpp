// What `zeroproof bench` ended on, as plain data. A stage's verdicts are those of all its rounds, its samples
// of all its rounds too; what it held and sent is every step's, as it is judged.
#pragma once

#include "harness/report/result.hpp"

namespace zp {

struct BenchResult {
  RunResult run;
  int rounds = 0, warm_up = 0, timed = 0;  // rounds, and steps of each
};

}  // namespace zp
