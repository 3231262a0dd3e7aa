// What the conformance tests share: every row of the table with every algorithm, cuts and places to try,
// views with fences, and comparison with plain sums and messages.
#pragma once

#include <gtest/gtest.h>

#include <sstream>

#ifdef ZP_TEST_RIG  // another rig for the same promises
#include ZP_TEST_RIG
#else
#include "correctness/transport/rig.hpp"
#endif

namespace zp {

inline constexpr double kTimeout = 60.0;

struct Case {
  RowAndWorld on;
  Algorithm algorithm;
};

inline std::string name_of(const Case& c) { return name_of(c.on) + "_" + std::string(name_of(c.algorithm)); }
inline void PrintTo(const Case& c, std::ostream* os) { *os << name_of(c); }  // NOLINT: GoogleTest's name

inline std::vector<Case> cases() {
  std::vector<Case> all;
  for (const RowAndWorld& on : rows_and_worlds()) {
    all.push_back({on, Algorithm::direct});
    if (kEveryRing || on.world == 3) all.push_back({on, Algorithm::ring});
    if (std::has_single_bit(static_cast<unsigned>(on.world))) all.push_back({on, Algorithm::halving});
  }
  return all;
}

inline std::vector<Cuts> cuts_of(int world) {
  const auto cut = [world](auto length_at) {
    Cuts cuts;
    cuts.at = {{0}};
    for (int p = 0; p < world; ++p) cuts.at.push_back(cuts.at.back() + Elements{length_at(p)});
    return cuts;
  };
  std::vector<Cuts> all{
      Cuts::equal(world, {0}),
      Cuts::equal(world, {1}),
      Cuts::equal(world, {67}),
      cut([](int p) { return int64_t{(p * 7 + 3) % 5}; }),               // uneven, some empty
      cut([world](int p) { return int64_t{p == world / 2 ? 13 : 0}; }),  // one place owns all
  };
  // More than two pieces: of one slice, and of the half of the whole that halving exchanges first.
  if (world <= 5)
    all.push_back(cut([](int p) { return p == 1 ? int64_t{2 * 65536 + 4099} : int64_t{301 * p}; }));
  if (std::has_single_bit(static_cast<unsigned>(world)))
    all.push_back(Cuts::equal(world, {5 * 65536 / (2 * world) + 1}));
  return all;
}

inline bool equal_slices(const Cuts& cuts) {
  return cuts.at == Cuts::equal(cuts.world(), cuts.of(0).length()).at;
}

// Those that a library's own collectives take.
inline std::vector<Cuts> library_cuts_of(int world) {
  std::vector<Cuts> all = cuts_of(world);
  if (kLibraryWantsEqualSlices) std::erase_if(all, [](const Cuts& cuts) { return !equal_slices(cuts); });
  return all;
}

inline std::vector<Places> places_of(int world) {
  Places shifted;
  for (int p = 0; p < world; ++p) shifted.rank_at.push_back((p + 1) % world);
  if (world == 1) return {Places::in_rank_order(1)};
  return {Places::in_rank_order(world), shifted};
}

// The index of the first element that differs, or -1; of different lengths, that of the shorter one's end.
inline int64_t first_difference(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return at == a.end() && other == b.end() ? -1 : at - a.begin();
}

// A view that begins and ends inside its buffer, between elements that nobody may touch.
struct Fenced {
  Fenced(Device& device, Type type, Elements length)
      : buffer(device.acquire(Category::grads, type, length + Elements{kBefore + kAfter})),
        view(buffer.part({{kBefore}, {kBefore + length.n}})) {
    for (const Range& fence : fences()) plain::fill(buffer.part(fence), kNobody, fence.begin.n);
  }
  void expect_untouched() {
    for (const Range& fence : fences()) {
      const std::vector<uint64_t> bits = plain::bits_of(buffer.part(fence));
      for (int64_t i = fence.begin.n; i < fence.end.n; ++i) {
        EXPECT_EQ(bits[static_cast<size_t>(i - fence.begin.n)], plain::own_bits(view.type(), kNobody, i))
            << "fence element " << i;
      }
    }
  }

  static constexpr int64_t kBefore = 3, kAfter = 4;
  static constexpr int kNobody = 99;
  Buffer buffer;
  View view;

 private:
  std::array<Range, 2> fences() const {
    return {Range{{0}, {kBefore}}, Range{buffer.length() - Elements{kAfter}, buffer.length()}};
  }
};

// What rank `place` of a case sees; one object per rank and collective.
struct Check {
  TestRig& rig;
  Algorithm algorithm;
  const Places& places;
  const Cuts& cuts;
  Type type;
  int64_t first = 0;  // the number of the whole's first value

  int place() const { return rig.transport->place(); }
  Range own() const { return cuts.of(place()); }
  std::string text() const {
    std::ostringstream text;
    text << zp::name_of(type) << ", cuts";
    for (const Elements at : cuts.at) text << " " << at.n;
    text << ", place " << place() << " rank " << rig.transport->rank();
    return text.str();
  }

  // Elements of the whole, slice by slice, as far as they are in the range.
  template <class F>
  void each(Range range, const F& act) const {
    for (int owner = 0; owner < cuts.world(); ++owner) {
      const Range slice = cuts.of(owner);
      for (int64_t i = std::max(slice.begin.n, range.begin.n); i < std::min(slice.end.n, range.end.n); ++i)
        act(owner, i);
    }
  }
  void expect(const View& got, Range range, const std::vector<uint64_t>& expected) const {
    const std::vector<uint64_t> bits = plain::bits_of(got);
    const int64_t at = first_difference(bits, expected);
    ASSERT_EQ(at, -1) << text() << ", element " << range.begin.n + at;
  }
  void expect_sums(const View& got, Range range, float divisor) const {
    std::vector<uint64_t> expected;
    each(range, [&](int owner, int64_t i) {
      expected.push_back(
          plain::sum_bits(algorithm, type, got.type(), cuts.world(), first + i, divisor, owner));
    });
    expect(got, range, expected);
  }
  void expect_slices(const View& whole) const {
    const Range all{{0}, cuts.whole()};
    std::vector<uint64_t> expected;
    each(all,
         [&](int owner, int64_t i) { expected.push_back(plain::own_bits(whole.type(), owner, first + i)); });
    expect(whole, all, expected);
  }
  // By rank, since the last call.
  void expect_sent(const plain::TrafficByPlace& by_place) const {
    std::map<int, plain::Traffic> expected;
    for (const auto& [p, traffic] : by_place) expected[places.rank_at[static_cast<size_t>(p)]] = traffic;
    for (const auto& [rank, traffic] : expected) {
      EXPECT_EQ(rig.link.sent[rank].bytes, traffic.bytes) << text() << " to rank " << rank;
      EXPECT_EQ(rig.link.sent[rank].messages, traffic.messages) << text() << " to rank " << rank;
    }
    EXPECT_EQ(rig.link.sent.size(), expected.size()) << text();
    rig.link.sent.clear();
  }
};

class EveryTransport : public testing::TestWithParam<Case> {
 protected:
  // Runs `body` on every rank, once for each choice of places.
  void on_every_rank(const std::function<void(TestRig&, const Places&)>& body) {
    const auto [on, algorithm] = GetParam();
    on.row->run(on.world, kTimeout, [&, on = on, algorithm = algorithm](Endpoint& endpoint) {
      for (const Places& places : places_of(on.world)) {
        TestRig rig(endpoint, {.algorithm = algorithm, .places = places, .timeout_s = kTimeout});
        EXPECT_EQ(places.rank_at[static_cast<size_t>(rig.transport->place())], endpoint.link->rank());
        body(rig, places);
      }
    });
  }
};

// On every row whose ranks are those of a library.
inline void on_native(const std::function<void(TestRig&, const Places&)>& body) {
  for (const RowAndWorld& on : rows_and_worlds()) {
    if (on.row->name == "threads") continue;
    on.row->run(on.world, kTimeout, [&](Endpoint& endpoint) {
      const Places places = Places::in_rank_order(on.world);
      TestRig rig(endpoint, {.algorithm = Algorithm::native, .places = places, .timeout_s = kTimeout});
      body(rig, places);
    });
  }
}

}  // namespace zp
