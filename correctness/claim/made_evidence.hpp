// A step's evidence as it would be if every claim held: bytes, memory and work from theory, bits from a
// made-up reference. Tests then change one field at a time.
#pragma once

#include <vector>

#include "harness/claim/claims.hpp"

namespace zp {

// A small model of odd sizes on a world whose places are not in rank order.
class MadeRun {
 public:
  MadeRun(const theory::Stage& stage, int world, int micro_steps, Algorithm algorithm,
          const Recipe& recipe = kRecipes.front(), Method optimizer = Method::adamw,
          HashFunction of_replicas = HashFunction::replica);
  MadeRun(const MadeRun&) = delete;  // facts point at the layout
  MadeRun& operator=(const MadeRun&) = delete;

  Layout layout;
  RunFacts facts;
  ReferenceStep reference;
  std::vector<StepEvidence> ranks;  // of step 2, so that sequences do not start at 0

  int place_of(int rank) const { return layout.places().place_of(rank); }

 private:
  HashFunction of_replicas_;
  StepEvidence evidence_of(int rank) const;
  void add_bits(StepEvidence& step, int place) const;
};

}  // namespace zp
