// Collects the contradictions of one claim: the first of all on a line of its own, then a few of each kind.
#pragma once

#include <string>

#include "harness/claim/claims.hpp"

namespace zp {

inline constexpr size_t kMostEvidenceLines = 6;
inline constexpr size_t kLongestEvidenceLine = 200;

class Findings {
 public:
  Findings(Claim claim, const RunFacts& facts) : claim_(claim), facts_(facts) {}

  // What follows is another kind of contradiction: a flood of one kind must not hide the next.
  void begin_kind() { of_kind_ = 0; }
  // `rank` did it.
  void add(int step, int rank, const std::string& what);
  // It lies with the ranks at places [first, last]; which of them cannot be told.
  void add(int step, int first_place, int last_place, const std::string& what);
  // It concerns the job as a whole.
  void add(int step, const std::string& what);
  bool none() const { return lines_.empty(); }
  Verdict verdict() &&;

 private:
  void add_line(const std::string& line);

  Claim claim_;
  const RunFacts& facts_;
  std::vector<std::string> lines_;
  size_t of_kind_ = 0, untold_ = 0;
};

// "+3", "-3" or "0".
std::string signed_text(int64_t difference);
// What every judge may rely on: evidence of all ranks of the layout's world.
void check_facts(const RunFacts& facts, const std::vector<StepEvidence>& ranks);

}  // namespace zp
