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

// A view that begins and ends inside its buffer, between elements that nobody may touch.
struct Fenced {
  Fenced(Device& device, Type type, Elements length)
      : buffer(device.acquire(Category::grads, type, length + Elements{kBefore + kAfter})),
        view(buffer.part({{kBefore}, {kBefore + length.n}})) {
    each_fence([&](int64_t i) { plain::put(buffer.all(), i, 99, i); });
  }
  void expect_untouched() {
    Buffer expected = buffer.all().storage()->owner->acquire(Category::grads, view.type(), buffer.length());
    each_fence([&](int64_t i) {
      plain::put(expected.all(), i, 99, i);
      EXPECT_EQ(plain::bits_of(buffer.all(), i), plain::bits_of(expected.all(), i)) << "fence element " << i;
    });
  }

  static constexpr int64_t kBefore = 3, kAfter = 4;
  Buffer buffer;
  View view;

 private:
  template <class F>
  void each_fence(const F& act) const {
    for (int64_t i = 0; i < kBefore; ++i) act(i);
    for (int64_t i = 0; i < kAfter; ++i) act(buffer.length().n - kAfter + i);
  }
};

// Element i holds the place's value number first + i.
inline void fill(const View& whole, int place, int64_t first = 0) {
  for (int64_t i = 0; i < whole.length().n; ++i) plain::put(whole, i, place, first + i);
}

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
  // Of an element of the whole.
  int owner_of(int64_t element) const {
    int owner = 0;
    while (cuts.of(owner).end.n <= element) ++owner;
    return owner;
  }
  std::string text() const {
    std::ostringstream text;
    text << zp::name_of(type) << ", cuts";
    for (const Elements at : cuts.at) text << " " << at.n;
    text << ", place " << place() << " rank " << rig.transport->rank();
    return text.str();
  }

  void expect_sums(const View& got, Range range, float divisor) const {
    for (int64_t i = range.begin.n; i < range.end.n; ++i) {
      const uint64_t bits = plain::bits_of(got, i - range.begin.n);
      ASSERT_EQ(bits,
                plain::sum_bits(algorithm, type, got.type(), cuts.world(), first + i, divisor, owner_of(i)))
          << text() << ", element " << i;
    }
  }
  void expect_slices(const View& whole) const {
    Buffer expected = rig.device->acquire(Category::params, whole.type(), {1});
    for (int p = 0; p < cuts.world(); ++p) {
      for (int64_t i = cuts.of(p).begin.n; i < cuts.of(p).end.n; ++i) {
        plain::put(expected.all(), 0, p, first + i);
        ASSERT_EQ(plain::bits_of(whole, i), plain::bits_of(expected.all(), 0)) << text() << ", element " << i;
      }
    }
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
