// Runs configurations against the reference and looks for alarms: anything but four claims proved. What
// raises one is made as simple as it can be while it still does.
#pragma once

#include <functional>
#include <string>

#include "correctness/mutants/trial.hpp"
#include "correctness/random/axes.hpp"

namespace zp::drawn {

// The way of the command: its options parsed, resolved, and run with ranks as threads, whose fresh and freed
// memory is NaN unless the mutant says otherwise.
mutants::Outcome try_out(const Configuration& configuration, const mutants::Trial& mutant = {});

bool alarm(const mutants::Outcome& outcome);
// What is refuted, or what went wrong.
std::string said(const mutants::Outcome& outcome);

// Greedy: axis by axis, the simplest value with which it still fails, until no axis gives way. What no longer
// fits below an axis becomes the simplest there.
Configuration shrink(Configuration failing, const std::function<bool(const Configuration&)>& fails);

// The failing case, and the simplest that fails, as command lines, with what is said of it.
std::string report(const Configuration& failing, const mutants::Trial& mutant = {});

}  // namespace zp::drawn
