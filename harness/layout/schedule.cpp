// Buckets as sub-ranges of slices.
#include "harness/layout/schedule.hpp"

#include <algorithm>

#include "harness/base/check.hpp"

namespace zp {

std::vector<Range> bucket_ranges(const UnitLayout& unit, int world, Bytes each, Bytes bucket) {
  require(bucket.n >= 0, "a bucket has no negative size");
  if (bucket.n == 0) return {{{0}, unit.slice}};
  constexpr int64_t kMultiple = 64;
  const int64_t most = std::max(bucket.n / (each.n * world) / kMultiple * kMultiple, kMultiple);
  std::vector<Range> ranges;
  for (int64_t begin = 0; begin < unit.slice.n; begin += most) {
    ranges.push_back({{begin}, {std::min(begin + most, unit.slice.n)}});
  }
  return ranges;
}

}  // namespace zp
