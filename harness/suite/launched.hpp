// What ranks of one job say to each other before they do anything: their commands must be one, and a problem
// that only one of them finds must end all of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/transport/transport.hpp"

namespace zp {

// None where every rank gave the same `command` and no problem; otherwise the one error that all ranks throw,
// naming the ranks where they differ. Collective.
std::optional<Error> shared_problem(const std::string& command, const std::optional<Error>& problem,
                                    Control& control);

// Runs `body` on rank 0 of a launched job and returns its code on every rank; alone, just runs it. `problem`:
// what this process found wrong with its own command line, if anything. Throws as shared_problem says, and
// what body throws.
Exit run_on_first_rank(const std::string& command, const std::optional<Error>& problem,
                       const std::function<Exit()>& body);

}  // namespace zp
