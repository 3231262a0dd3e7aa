// What collectives demand of their arguments, and algorithms of the ranks.
#include "harness/transport/arguments.hpp"

#include <algorithm>
#include <bit>

namespace zp::transport {

void check_lengths(const Cuts& cuts, const View& whole, const View& mine, int world, int place) {
  require(cuts.world() == world, "a collective's cuts name a slice for every place");
  require(cuts.at.front().n == 0 && std::is_sorted(cuts.at.begin(), cuts.at.end()), "cuts ascend from 0");
  require(cuts.within.begin.n >= 0 && cuts.within.begin <= cuts.within.end, "a bucket lies in its slices");
  for (int p = 0; p < world && !cuts.within.empty(); ++p) {
    require(cuts.of(p).end <= cuts.at[static_cast<size_t>(p) + 1], "a bucket lies in its slices");
  }
  require(whole.length() == cuts.whole(), "a collective's whole is as long as its cuts");
  require(mine.length() == cuts.of(place).length(), "a collective's own slice is as long as its cut");
}

void check_summable(const View& whole, const View& mine, const FixedPoint& fixed, const Cuts& cuts) {
  if (fixed.image.storage() != nullptr) {
    require(whole.empty() || whole.type() == Type::f32, "an image is one of fp32");
    require(fixed.image.type() == Type::i64 && fixed.image.length() >= cuts.asked(),
            "an image is of int64, and as long as what is asked for");
  }
  require(whole.empty() || whole.type() != Type::i32, "sums are of fp32, bf16 or fixed point");
  require(mine.empty() || mine.type() == Type::f32 ||
              (mine.type() == Type::bf16 ? whole.type() != Type::i64 && fixed.image.storage() == nullptr
                                         : mine.type() == Type::i64 && fixed.image.storage() != nullptr),
          "a sum is kept in a type that it comes in");
}

void check_places(const CollectiveOptions& options, int world) {
  std::vector<int> ranks = options.places.rank_at;
  std::sort(ranks.begin(), ranks.end());
  bool each_once = static_cast<int>(ranks.size()) == world;
  for (size_t i = 0; each_once && i < ranks.size(); ++i) each_once = ranks[i] == static_cast<int>(i);
  require(each_once, "places name every rank once");
  if (options.algorithm == Algorithm::halving && !std::has_single_bit(static_cast<unsigned>(world))) {
    fail(Exit::unavailable,
         "algorithm halving needs a power of two of ranks, not " + std::to_string(world) + ": use direct");
  }
}

}  // namespace zp::transport
