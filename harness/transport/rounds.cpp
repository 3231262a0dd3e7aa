// Recursive halving and doubling, the direct exchange, and the ring.
#include "harness/transport/rounds.hpp"

#include <algorithm>
#include <utility>

namespace zp::transport {
namespace {

// What is not empty of one range.
std::vector<Range> one(Range range) {
  std::vector<Range> ranges;
  if (!range.empty()) ranges.push_back(range);
  return ranges;
}

// Moved into its place: a list in braces would be copied, range by range, in every collective.
void append(std::vector<Round>& rounds, Exchange exchange) {
  rounds.emplace_back().push_back(std::move(exchange));
}

// Slices of the `count` places around `place`: those whose numbers agree with it in all bits from `count` up.
// One run, or one per slice where only a bucket of each is meant.
std::vector<Range> run_around(const Cuts& cuts, int place, int count) {
  const int first = place / count * count;
  if (cuts.within.empty()) return one({cuts.of(first).begin, cuts.of(first + count - 1).end});
  std::vector<Range> runs;
  for (int p = first; p < first + count; ++p) runs.push_back(cuts.of(p));
  return runs;
}

std::vector<Round> halving_rounds(const Cuts& cuts, int place) {
  std::vector<Round> rounds;
  for (int h = cuts.world() / 2; h >= 1; h /= 2) {
    const int other = place ^ h;
    append(rounds,
           {.place = other, .sent = run_around(cuts, other, h), .received = run_around(cuts, place, h)});
  }
  return rounds;
}

std::vector<Round> doubling_rounds(const Cuts& cuts, int place) {
  std::vector<Round> rounds;
  for (int h = 1; h < cuts.world(); h *= 2) {
    const int other = place ^ h;
    append(rounds,
           {.place = other, .sent = run_around(cuts, place, h), .received = run_around(cuts, other, h)});
  }
  return rounds;
}

// The other places, beginning with the next one, so that not all ranks send to the same place first.
std::vector<int> others_from(int place, int world) {
  std::vector<int> others;
  for (int step = 1; step < world; ++step) others.push_back((place + step) % world);
  return others;
}

// In step t every place passes on the slice that it got in the step before. A sum begins one place after its
// owner, and comes home last; a gathered slice begins at its owner: `ahead` places apart.
std::vector<Round> ring_rounds(const Cuts& cuts, int place, int ahead) {
  const int world = cuts.world();
  const auto slice = [&](int back) { return one(cuts.of(((place - back) % world + world) % world)); };
  std::vector<Round> rounds;
  for (int step = 0; step + 1 < world; ++step) {
    append(rounds, {.place = (place + world - 1) % world, .sent = {}, .received = slice(step + 1 + ahead)});
    rounds.back().push_back({.place = (place + 1) % world, .sent = slice(step + ahead), .received = {}});
  }
  return rounds;
}

}  // namespace

std::vector<Round> reduce_rounds(Algorithm algorithm, const Cuts& cuts, int place) {
  if (cuts.world() == 1) return {};
  if (algorithm == Algorithm::halving) return halving_rounds(cuts, place);
  if (algorithm == Algorithm::ring) return ring_rounds(cuts, place, 1);
  std::vector<Round> rounds(1);
  for (const int other : others_from(place, cuts.world())) {
    rounds.front().push_back({.place = other, .sent = one(cuts.of(other)), .received = one(cuts.of(place))});
  }
  return rounds;
}

std::vector<Round> gather_rounds(Algorithm algorithm, const Cuts& cuts, int place) {
  if (cuts.world() == 1) return {};
  if (algorithm == Algorithm::halving) return doubling_rounds(cuts, place);
  if (algorithm == Algorithm::ring) return ring_rounds(cuts, place, 0);
  std::vector<Round> rounds(1);
  for (const int other : others_from(place, cuts.world())) {
    rounds.front().push_back({.place = other, .sent = one(cuts.of(place)), .received = one(cuts.of(other))});
  }
  return rounds;
}

std::vector<Range> parts_of(const std::vector<Range>& ranges, Type type, Bytes longest) {
  const Elements each{longest.n / size_of(type).n};
  std::vector<Range> parts;
  for (const Range& range : ranges) {
    for (Elements at = range.begin; at < range.end; at += each)
      parts.push_back({at, std::min(at + each, range.end)});
  }
  return parts;
}

int peers_at_once(Algorithm algorithm, int world) {
  if (world == 1) return 0;
  return algorithm == Algorithm::direct ? world - 1 : 1;
}

}  // namespace zp::transport
