// The hunt for mutants.
#include "correctness/random/hunt.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "correctness/mutants/cases.hpp"
#include "correctness/random/search.hpp"
#include "harness/base/random.hpp"

namespace zp::drawn {

using mutants::Outcome;
using mutants::Trial;

std::vector<Hunted> hunted() {
  std::vector<Hunted> all;
  for (mutants::Case& each : mutants::all_mutants()) {
    const auto offends = [refuted = each.refuted](const Outcome& outcome) {
      return std::ranges::any_of(outcome.refuted(), [&](Claim claim) { return refuted.contains(claim); });
    };
    all.push_back({.mutant = std::move(each.mutant), .is_found = offends});
  }
  for (mutants::Ending& each : mutants::ending_mutants()) {
    const auto ends = [exit = each.exit, word = each.says.front()](const Outcome& outcome) {
      return outcome.error && outcome.error->code() == exit &&
             std::string(outcome.error->what()).find(word) != std::string::npos;
    };
    all.push_back({.mutant = std::move(each.mutant), .is_found = ends});
  }
  return all;
}

// A strategy that is wrong is so beside the theory of its stage; beside another's it would be another stage.
// Places are given for a number of ranks.
Configuration needs(const Trial& mutant) {
  Configuration pinned;
  if (mutant.make != nullptr) pinned["--stages"] = mutant.stage;
  if (!mutant.rank_at.empty()) pinned["--ranks"] = std::to_string(mutant.rank_at.size());
  return pinned;
}

int64_t draws_until_found(const Hunted& hunted, uint64_t seed, int64_t most) {
  const uint64_t own = key_of(seed, hunted.mutant.name);
  for (int64_t i = 0; i < most; ++i) {
    const Configuration drawn = draw(own, static_cast<uint64_t>(i), needs(hunted.mutant));
    if (hunted.is_found(try_out(drawn, hunted.mutant))) return i + 1;
  }
  return 0;
}

}  // namespace zp::drawn
