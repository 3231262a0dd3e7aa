// What the user typed, as checked options. Every bad input is one line that says what, where, and what would
// be right: Error with Exit::usage, or Exit::unavailable for what is valid but cannot be had here (halving at
// N = 3).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "harness/suite/bench.hpp"
#include "harness/suite/devices.hpp"
#include "harness/suite/plan.hpp"
#include "harness/suite/verify.hpp"

namespace zp {

// How this process came to be: world 0 where no launcher started it.
struct Launch {
  int world = 0, rank = 0;
};
// From the variables that MPI launchers set.
Launch launch_from_environment();

// --help or --version: text for standard output.
struct Print {
  std::string text;
};

using Invocation = std::variant<Print, VerifyOptions, BenchOptions, PlanOptions, DevicesOptions>;

// `args` without the program's name.
Invocation parse_command_line(const std::vector<std::string>& args, const Launch& launch);

}  // namespace zp
