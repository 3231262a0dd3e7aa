// Runs configurations and makes failing ones simple.
#include "correctness/random/search.hpp"

#include <fmt/format.h>

#include "harness/suite/command_line.hpp"

namespace zp::drawn {

mutants::Outcome try_out(const Configuration& configuration, const mutants::Trial& mutant) {
  try {
    auto options = std::get<VerifyOptions>(parse_command_line(words(configuration), Launch{}));
    options.timeout_s = mutant.timeout_s;
    return mutants::run(resolve(options, options.ranks, "threads"), mutant);
  } catch (const Error& error) {
    return {.result = {}, .error = error};
  }
}

bool alarm(const mutants::Outcome& outcome) { return !outcome.result || !outcome.result->proved(); }

std::string said(const mutants::Outcome& outcome) {
  if (!outcome.result) return outcome.error->what();
  std::string text;
  for (const Claim claim : outcome.refuted()) {
    text += fmt::format("{} REFUTED\n{}", name_of(claim), outcome.evidence(claim));
  }
  return text;
}

Configuration shrink(Configuration failing, const std::function<bool(const Configuration&)>& fails) {
  for (bool simpler = true; simpler;) {
    simpler = false;
    for (const Axis& axis : axes()) {
      for (const std::string& value : axis.values) {
        if (value == failing.at(axis.name)) break;
        const Configuration candidate = with(failing, axis.name, value);
        if (!fails(candidate)) continue;
        failing = candidate;
        simpler = true;
        break;
      }
    }
  }
  return failing;
}

std::string report(const Configuration& failing, const mutants::Trial& mutant) {
  // A simpler case that the command refuses is another failure, unless that is the failure.
  const auto refused = [](const mutants::Outcome& outcome) {
    return outcome.error &&
           (outcome.error->code() == Exit::usage || outcome.error->code() == Exit::unavailable);
  };
  const bool refusal = refused(try_out(failing, mutant));
  const Configuration simplest = shrink(failing, [&](const Configuration& candidate) {
    const mutants::Outcome outcome = try_out(candidate, mutant);
    return alarm(outcome) && refused(outcome) == refusal;
  });
  return fmt::format("{}\nat its simplest (where fresh and freed memory is NaN):\n{}\n{}\n",
                     command_line(failing), command_line(simplest), said(try_out(simplest, mutant)));
}

}  // namespace zp::drawn
