// The references of a job: one device alone on rank 0, once per distinct arithmetic, before the stages; or
// what a golden file holds.
#pragma once

#include <functional>
#include <vector>

#include "harness/suite/job.hpp"

namespace zp {

// Those of the golden file, where the job has one. Collective otherwise: rank 0 computes, the others wait and
// hear of every micro-batch. `progress` is called on rank 0 with steps and micro-batches done of the whole.
// The reference's memory is given back before this returns.
std::vector<ReferenceRun> run_references(const Job& job, Control& control,
                                         const std::function<void(const std::string&)>& progress);
const ReferenceRun& reference_of(const std::vector<ReferenceRun>& runs, const Arithmetic& arithmetic);

// Rank 0: runs the reference again up to `step` and returns one tensor's bits.
std::vector<uint32_t> replay(const Job& job, const Arithmetic& arithmetic, Control& control, int step,
                             HashKind kind, int tensor);

}  // namespace zp
