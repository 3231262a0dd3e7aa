// The executable. The only place outside the launcher where an Error ends: one line, and its exit code on
// every rank.
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/suite/command_line.hpp"
#include "harness/suite/launched.hpp"
#include "harness/transport/transport.hpp"

namespace {

zp::Exit run(const std::vector<std::string>& args, const zp::Launch& launch) {
  const std::string command = args.empty() ? "" : args.front();
  std::optional<zp::Error> problem;
  zp::Invocation invocation;
  try {
    invocation = zp::parse_command_line(args, launch);
  } catch (const zp::Error& error) {
    problem = error;
  }
  if (!problem) {
    if (const auto* options = std::get_if<zp::VerifyOptions>(&invocation)) return zp::verify(*options);
    if (const auto* options = std::get_if<zp::BenchOptions>(&invocation)) return zp::bench(*options);
  }
  return zp::run_on_first_rank(command, problem, [&] {
    if (const auto* options = std::get_if<zp::PlanOptions>(&invocation)) return zp::plan(*options);
    if (const auto* options = std::get_if<zp::DevicesOptions>(&invocation)) return zp::devices(*options);
    std::fputs(std::get<zp::Print>(invocation).text.c_str(), stdout);
    return zp::Exit::pass;
  });
}

}  // namespace

int main(int argc, char** argv) {
  const zp::Launch launch = zp::launch_from_environment();
  zp::Exit exit = zp::Exit::internal;
  // Rank 0 speaks for all; where it is stuck, rank 1 does.
  std::string unsaid;
  const auto say = [&](const char* message) {
    if (launch.rank == 0) std::fprintf(stderr, "zeroproof: %s\n", message);
    if (launch.rank == 1) unsaid = std::string("zeroproof: ") + message;
  };
  try {
    exit = run({argv + 1, argv + argc}, launch);
  } catch (const zp::Error& error) {
    say(error.what());
    exit = error.code();
  } catch (const std::exception& error) {
    say(error.what());
  }
  if (std::fflush(stdout) != 0 && exit == zp::Exit::pass) {
    say("standard output cannot be written");
    exit = zp::Exit::usage;
  }
  zp::end_processes(exit, unsaid);
}
