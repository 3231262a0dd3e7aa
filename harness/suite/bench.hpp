// zeroproof bench: how fast each stage trains, what it holds, and what transfers cost it, all claims judged.
// Stages take turns in rounds; in each a stage starts anew, warms up, and is timed for a few steps.
#pragma once

#include "harness/suite/verify.hpp"

namespace zp {

struct BenchOptions {
  VerifyOptions job;  // `steps`: those of a round
  int warm_up = 2;    // steps of a round that are not timed
  int rounds = 5;
  int timed() const { return job.steps - warm_up; }
};

// As verify(): exit code of the claims; throws for what cannot run.
Exit bench(const BenchOptions& options);

}  // namespace zp
