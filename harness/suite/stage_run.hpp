// One stage from first to last step, judged after every step on every rank. Ends at the first refuted claim.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/claim/claims.hpp"
#include "harness/report/result.hpp"
#include "harness/suite/stages.hpp"
#include "harness/trainer/reference.hpp"
#include "harness/trainer/trainer.hpp"

namespace zp {

// The last steps of a run, back to back: nobody looks at them before the last one is over, and nothing is
// said in between. Each is judged by what its meters counted, its loss and its norm; the last also by the
// state that it left, which follows from all of them.
struct Timing {
  int lead_in = 0;  // the first of them, not timed: ranks enter it one after another
  int timed = 0;
};

// What one stage's run needs; the same on all ranks but for `local_rank`, `local_ranks`, `faults`, `observer`
// and `replay`.
struct StageRun {
  StageRow row;
  ModelConfig model;
  BatchShape shape;
  Training training;
  const Corpus* corpus = nullptr;
  CollectiveOptions collectives;
  bool carried = false;  // messages are the device's own library's
  kernels::HostOptions kernels;
  const Backend* backend = &cpu_backend();
  Math math = Math::ordered;
  int local_rank = 0;   // among the ranks of its host
  int local_ranks = 0;  // how many these are; 0: not known
  Fill fill = Fill::zero;
  int steps = 1;
  Timing timing;  // of these steps
  Faults faults;
  Observer* observer = nullptr;                           // of this rank; null: nobody looks
  const std::vector<ReferenceStep>* reference = nullptr;  // at least `steps` of them
  // Rank 0: bits of one tensor of the reference as step `step` left it. Empty on every rank where none was
  // run.
  std::function<std::vector<uint32_t>(int step, HashKind kind, int tensor)> replay;
  std::function<void(int step)> progress;  // before each step; may be empty
};

// Collective. The result is the same on every rank. Throws Error, the same on every rank that still answers,
// when a rank fails or waits in vain; differing collective logs outrank whatever else went wrong.
StageResult run_stage(const StageRun& run, Endpoint& endpoint);

// What is known beforehand of a run: theory's facts and constants from plain shape numbers.
RunFacts facts_of(const StageRun& run, const Layout& layout);

}  // namespace zp
