// What ranks of one job say to each other before they do anything.
#include "harness/suite/launched.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/archive.hpp"

namespace zp {
namespace {

struct Greeting {
  std::string command, problem;
  Exit code = Exit::pass;
  friend bool operator==(const Greeting&, const Greeting&) = default;
};

template <class A>
void archive(A& a, Greeting& g) {
  a(g.command, g.problem, g.code);
}

Error error_of(const std::string& text) {
  const auto greeting = from_bytes<Greeting>(text);
  return {greeting.code, greeting.problem};
}

}  // namespace

std::optional<Error> shared_problem(const std::string& command, const std::optional<Error>& problem,
                                    Control& control) {
  Greeting mine;
  mine.command = command;
  if (problem) {
    mine.problem = problem->what();
    mine.code = problem->code();
  }
  std::vector<Greeting> all;
  for (const std::string& text : control.all_gather(to_bytes(mine)))
    all.push_back(from_bytes<Greeting>(text));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].command == all[0].command) continue;
    return Error(Exit::usage,
                 fmt::format("ranks were started with different commands: rank 0 has '{}', rank {} has '{}'",
                             all[0].command, rank, all[rank].command));
  }
  const auto first = std::ranges::find_if(all, [](const Greeting& g) { return g.code != Exit::pass; });
  if (first == all.end()) return std::nullopt;
  const bool of_all = std::ranges::count(all, *first) == std::ssize(all);
  return Error(first->code,
               of_all ? first->problem : fmt::format("rank {}: {}", first - all.begin(), first->problem));
}

Exit run_on_first_rank(const std::string& command, const std::optional<Error>& problem,
                       const std::function<Exit()>& body) {
  const int world = launched_world();
  if (world <= 1) {
    if (problem) throw *problem;
    return body();
  }
  constexpr double kPatience = 60.0;  // seconds
  Exit exit = Exit::internal;
  std::optional<Error> found;
  transport_named("mpi").run(world, kPatience, [&](Endpoint& endpoint) {
    found = shared_problem(command, problem, *endpoint.control);
    if (found) return;
    Greeting outcome;
    if (endpoint.control->rank() == 0) {
      try {
        outcome.code = body();
      } catch (const Error& error) {
        outcome.code = error.code();
        outcome.problem = error.what();
      }
    }
    const std::string text = endpoint.control->broadcast(to_bytes(outcome));
    exit = from_bytes<Greeting>(text).code;
    if (!from_bytes<Greeting>(text).problem.empty()) found = error_of(text);
  });
  if (found) throw *found;
  return exit;
}

}  // namespace zp
