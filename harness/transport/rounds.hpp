// Algorithms as data: which ranges of the whole a place sends and receives, round by round. Pure arithmetic.
// A round begins when the additions of the one before are done.
#pragma once

#include <vector>

#include "harness/transport/transport.hpp"

namespace zp::transport {

struct Exchange {
  int place = 0;                      // the other side
  std::vector<Range> sent, received;  // ascending; none is empty
};
using Round = std::vector<Exchange>;

// All exchanges of a round that receive anything receive the same ranges, and the first one is among them:
// contributions to them from other places. The last round's is the own slice (or its bucket). No rounds at
// world 1.
std::vector<Round> reduce_rounds(Algorithm algorithm, const Cuts& cuts, int place);

// Received ranges lie where they belong.
std::vector<Round> gather_rounds(Algorithm algorithm, const Cuts& cuts, int place);

// Ranges in parts of at most `longest` bytes; each range is rounded up by itself.
std::vector<Range> parts_of(const std::vector<Range>& ranges, Type type, Bytes longest);

// Places that a reduce-scatter receives from at once.
int peers_at_once(Algorithm algorithm, int world);

}  // namespace zp::transport
