// Which stage to take: the fastest that fits, not the highest that fits. Memory left unused buys nothing;
// memory freed pays when a larger micro-batch spends it on a rate that outweighs the extra traffic.
// Decides from measured numbers only; predicts no rate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/base/quantities.hpp"

namespace zp::theory {

struct Measured {
  Bytes peak;
  double rate = 0;  // samples/s, or any rate that is better when larger
};

struct Candidate {
  std::string stage;
  Measured plain;
  std::optional<Measured> larger_batch;  // the same stage with a larger micro-batch or sequence
};

struct Recommendation {
  bool found = false;  // false where nothing fits
  std::string stage;
  bool with_larger_batch = false;
  Measured measured;
};

// The highest rate among all that fit `capacity`; of equal rates the smaller peak, then the earlier
// candidate.
Recommendation recommend(const std::vector<Candidate>& candidates, Bytes capacity);

}  // namespace zp::theory
