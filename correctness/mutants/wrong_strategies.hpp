// Stages that are wrong on purpose.
#pragma once

#include "harness/strategy/strategy.hpp"

namespace zp::mutants {

// zero2 that gathers a unit's parameters before it has updated its slice of them.
std::unique_ptr<Strategy> gathers_too_early(Rig& rig);
// zero2 whose optimizer counts a step for every unit.
std::unique_ptr<Strategy> counts_steps_per_unit(Rig& rig);
// zero2 that never updates its last unit.
std::unique_ptr<Strategy> skips_last_unit(Rig& rig);
// zero2 that clips by the norm of its own slice.
std::unique_ptr<Strategy> clips_by_own_norm(Rig& rig);
// zero3 that never drops what it gathered for forward.
std::unique_ptr<Strategy> keeps_gathered_units(Rig& rig);
// zero2 that keeps one float more with every step.
std::unique_ptr<Strategy> leaks_a_little(Rig& rig);
// zero2 that computes the micro-batches of a stage which accumulates first.
std::unique_ptr<Strategy> takes_other_micro_batches(Rig& rig);
std::unique_ptr<Strategy> folds_micro_steps(Rig& rig);

// What most of these are made of: zero2, right.
std::unique_ptr<Strategy> open_zero2(Rig& rig);

}  // namespace zp::mutants
