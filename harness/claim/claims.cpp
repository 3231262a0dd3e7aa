// Verdicts of several steps as one.
#include "harness/claim/claims.hpp"

#include <algorithm>

#include "harness/claim/findings.hpp"

namespace zp {

void merge(Verdict& into, const Verdict& other) {
  require(into.claim == other.claim, "verdicts on one claim are merged");
  // A claim is proved of a run only if it was proved of every step.
  if (into.finding != Finding::refuted && other.finding != Finding::proved) into.finding = other.finding;
  const size_t room = kMostEvidenceLines - std::min(into.evidence.size(), kMostEvidenceLines);
  const auto end =
      other.evidence.begin() + static_cast<std::ptrdiff_t>(std::min(room, other.evidence.size()));
  into.evidence.insert(into.evidence.end(), other.evidence.begin(), end);
}

}  // namespace zp
