// The fastest stage that fits.
#include "harness/theory/recommend.hpp"

namespace zp::theory {

Recommendation recommend(const std::vector<Candidate>& candidates, Bytes capacity) {
  Recommendation best;
  const auto consider = [&](const Candidate& candidate, const Measured& measured, bool larger_batch) {
    if (measured.peak > capacity) return;
    const bool faster = measured.rate > best.measured.rate;
    const bool leaner = measured.rate == best.measured.rate && measured.peak < best.measured.peak;
    if (best.found && !faster && !leaner) return;
    best = {.found = true, .stage = candidate.stage, .with_larger_batch = larger_batch, .measured = measured};
  };
  for (const Candidate& candidate : candidates) {
    consider(candidate, candidate.plain, false);
    if (candidate.larger_batch) consider(candidate, *candidate.larger_batch, true);
  }
  return best;
}

}  // namespace zp::theory
