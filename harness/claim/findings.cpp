// Contradictions as lines of text.
#include "harness/claim/findings.hpp"

#include <fmt/format.h>

#include <utility>

namespace zp {
namespace {

constexpr size_t kLinesOfAKind = 2;

}  // namespace

void Findings::add(int step, int rank, const std::string& what) {
  const int place = facts_.layout->places().place_of(rank);
  add_line(fmt::format("step {}, {}, rank {} (place {}): {}", step, facts_.stage.name, rank, place, what));
}

void Findings::add(int step, int first_place, int last_place, const std::string& what) {
  const auto& rank_at = facts_.layout->places().rank_at;
  const int first = rank_at[static_cast<size_t>(first_place)];
  const int last = rank_at[static_cast<size_t>(last_place)];
  if (first_place == last_place) return add(step, first, what);
  add_line(fmt::format("step {}, {}, rank {} to {} (place {} to {}): {}", step, facts_.stage.name, first,
                       last, first_place, last_place, what));
}

void Findings::add(int step, const std::string& what) {
  add_line(fmt::format("step {}, {}, every rank: {}", step, facts_.stage.name, what));
}

void Findings::add_line(const std::string& line) {
  // One line stays free for what is left out.
  if (++of_kind_ > kLinesOfAKind || lines_.size() + 1 == kMostEvidenceLines) {
    ++untold_;
    return;
  }
  lines_.push_back(line.substr(0, kLongestEvidenceLine));
}

Verdict Findings::verdict() && {
  if (lines_.empty()) return {.claim = claim_, .finding = Finding::proved, .evidence = {}};
  if (untold_ > 0) lines_.push_back(fmt::format("and {} more contradictions", untold_));
  return {.claim = claim_, .finding = Finding::refuted, .evidence = std::move(lines_)};
}

std::string signed_text(int64_t difference) {
  return difference > 0 ? fmt::format("+{}", difference) : fmt::format("{}", difference);
}

void check_facts(const RunFacts& facts, const std::vector<StepEvidence>& ranks) {
  require(facts.layout != nullptr, "a claim is judged on a layout");
  require(static_cast<int>(ranks.size()) == facts.layout->world(),
          "a claim is judged on evidence of every rank");
  require(facts.training.batching.world == facts.layout->world(), "layout and batching are of one world");
}

}  // namespace zp
