// When ranks talk, beside what they say: sizes of buckets, how far gathers run ahead, and whether transfers
// run beside kernels. No setting changes a bit or a byte; what it changes in memory follows from here.
#pragma once

#include <vector>

#include "harness/layout/layout.hpp"

namespace zp {

enum class Overlap { off, on };

struct Schedule {
  Bytes bucket;      // most bytes of a gradient that are reduced by one collective; 0: a unit at once
  int prefetch = 0;  // uses ahead of the current one whose units are gathered (zero3)
  // on: a unit's reduction ends when the next unit's is to begin, a gather when its unit is used or the next
  // gather after the step begins. off: where it begins.
  Overlap overlap = Overlap::off;
};

// A bucket is the same sub-range of every slice, so that it changes neither who owns what nor how much is
// sent. These are the sub-ranges of one slice, in order: as long as `bucket` allows (a multiple of 64
// elements, at least 64); one for a bucket of 0 bytes.
std::vector<Range> bucket_ranges(const UnitLayout& unit, int world, Bytes each, Bytes bucket);

}  // namespace zp
