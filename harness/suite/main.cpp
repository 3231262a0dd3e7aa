// The executable. The only place outside the launcher where an Error ends: one line, and its exit code on
// every rank.
#include <cstdio>
#include <exception>
#include <type_traits>

#include "harness/suite/command_line.hpp"
#include "harness/transport/transport.hpp"

namespace {

// A launched rank whose options are wrong must not leave the others waiting for it.
zp::Invocation parse(const std::vector<std::string>& args, const zp::Launch& launch) {
  try {
    return zp::parse_command_line(args, launch);
  } catch (const zp::Error& error) {
    if (!args.empty() && args.front() == "verify") zp::fail_on_every_rank(error);
    throw;
  }
}

zp::Exit run(const std::vector<std::string>& args, const zp::Launch& launch) {
  const zp::Invocation invocation = parse(args, launch);
  return std::visit(
      [&](const auto& asked) {
        using Asked = std::decay_t<decltype(asked)>;
        if constexpr (std::is_same_v<Asked, zp::VerifyOptions>) {
          return zp::verify(asked);
        } else if constexpr (std::is_same_v<Asked, zp::PlanOptions>) {
          return zp::plan(asked);
        } else {
          if (launch.rank == 0) std::fputs(asked.text.c_str(), stdout);
          return zp::Exit::pass;
        }
      },
      invocation);
}

}  // namespace

int main(int argc, char** argv) {
  const zp::Launch launch = zp::launch_from_environment();
  zp::Exit exit = zp::Exit::internal;
  const auto say = [&](const char* message) {
    if (launch.rank == 0) std::fprintf(stderr, "zeroproof: %s\n", message);
  };
  try {
    exit = run({argv + 1, argv + argc}, launch);
  } catch (const zp::Error& error) {
    say(error.what());
    exit = error.code();
  } catch (const std::exception& error) {
    say(error.what());
  }
  zp::end_processes(exit);
}
