// What collectives demand of their arguments, and algorithms of the ranks.
#pragma once

#include "harness/transport/transport.hpp"

namespace zp::transport {

// Cuts for every place, a whole as long as they are, a slice as long as its cut.
void check_lengths(const Cuts& cuts, const View& whole, const View& mine, int world, int place);

// A whole whose sum `mine` can hold.
void check_summable(const View& whole, const View& mine, const FixedPoint& fixed, const Cuts& cuts);

// Places that name every rank once, and an algorithm that has as many ranks.
void check_places(const CollectiveOptions& options, int world);

}  // namespace zp::transport
