// What every transport promises, on every row of the table: the bits of the documented sum, every slice in
// its place, and exactly the messages that the closed form says.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "correctness/transport/conformance.hpp"

namespace zp {
namespace {

void reduces_and_scatters(const Check& check, Type result, float divisor, bool in_place) {
  TestRig& rig = check.rig;
  Fenced whole(*rig.device, check.type, check.cuts.whole());
  Fenced apart(*rig.device, result, check.own().length());
  plain::fill(whole.view, check.place());
  const View mine = in_place ? whole.view.part(check.own()) : apart.view;
  const int64_t elements_before = rig.kernels.elements;
  rig.transport
      ->reduce_scatter({whole.view, mine, check.cuts, divisor, {Purpose::reduce_grads, 3, "block.3"}})
      .wait();
  check.expect_sums(mine, check.own(), divisor);
  const int64_t own = check.own().length().n;
  if (check.cuts.world() > 1 && equal_slices(check.cuts)) {
    EXPECT_EQ(rig.kernels.elements - elements_before, (check.cuts.world() - 1) * own) << check.text();
  }
  plain::TrafficByPlace traffic;
  plain::add_reduce_scatter(traffic, check.algorithm, check.cuts, check.type, check.place());
  check.expect_sent(traffic);
  whole.expect_untouched();
  apart.expect_untouched();
}

void gathers(const Check& check, bool in_place) {
  TestRig& rig = check.rig;
  Fenced whole(*rig.device, check.type, check.cuts.whole());
  Fenced apart(*rig.device, check.type, check.own().length());
  const View mine = in_place ? whole.view.part(check.own()) : apart.view;
  plain::fill(mine, check.place(), check.own().begin.n);
  rig.transport->all_gather({mine, whole.view, check.cuts, {Purpose::gather_params, 5, "head"}}).wait();
  check.expect_slices(whole.view);
  plain::TrafficByPlace traffic;
  plain::add_all_gather(traffic, check.algorithm, check.cuts, check.type, check.place());
  check.expect_sent(traffic);
  whole.expect_untouched();
  apart.expect_untouched();
}

void all_reduces(const Check& check, float divisor) {
  TestRig& rig = check.rig;
  Fenced whole(*rig.device, check.type, check.cuts.whole());
  plain::fill(whole.view, check.place());
  rig.transport->all_reduce({whole.view, check.cuts, divisor, {Purpose::reduce_grads, 0, "embeddings"}})
      .wait();
  check.expect_sums(whole.view, {{0}, check.cuts.whole()}, divisor);
  plain::TrafficByPlace traffic;
  plain::add_reduce_scatter(traffic, check.algorithm, check.cuts, check.type, check.place());
  plain::add_all_gather(traffic, check.algorithm, check.cuts, check.type, check.place());
  check.expect_sent(traffic);
  whole.expect_untouched();
}

TEST_P(EveryTransport, ReduceScattersTheDocumentedSum) {
  on_every_rank([&](TestRig& rig, const Places& places) {
    for (const Cuts& cuts : cuts_of(GetParam().on.world)) {
      for (const Type type : {Type::f32, Type::bf16}) {
        const Check check{rig, GetParam().algorithm, places, cuts, type};
        reduces_and_scatters(check, type, 3.0F, true);
        reduces_and_scatters(check, type, 1.0F, false);
        if (type == Type::bf16) reduces_and_scatters(check, Type::f32, 5.0F, false);
      }
    }
  });
}

TEST_P(EveryTransport, GathersEverySliceIntoItsPlace) {
  on_every_rank([&](TestRig& rig, const Places& places) {
    for (const Cuts& cuts : cuts_of(GetParam().on.world)) {
      for (const Type type : {Type::f32, Type::bf16, Type::i32, Type::i64}) {
        const Check check{rig, GetParam().algorithm, places, cuts, type};
        gathers(check, true);
        gathers(check, false);
      }
    }
  });
}

TEST_P(EveryTransport, AllReducesToTheSameSumEverywhere) {
  on_every_rank([&](TestRig& rig, const Places& places) {
    for (const Cuts& cuts : cuts_of(GetParam().on.world)) {
      for (const Type type : {Type::f32, Type::bf16}) {
        all_reduces({rig, GetParam().algorithm, places, cuts, type}, 3.0F);
      }
    }
  });
}

TEST_P(EveryTransport, KeepsSeveralCollectivesApartThatAreWaitedForInAnyOrder) {
  on_every_rank([&](TestRig& rig, const Places& places) {
    const int world = GetParam().on.world;
    const Cuts cuts = Cuts::equal(world, {world <= 4 ? 70001 : 9001});
    Check check{rig, GetParam().algorithm, places, cuts, Type::f32};
    const auto first_of = [](int tensor) { return int64_t{tensor} << 24; };  // no two tensors hold the same
    std::vector<Buffer> wholes;
    std::vector<Handle> handles;
    // The last rank comes late, so that what the others sent for several collectives waits at the same time.
    if (rig.transport->rank() == world - 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int tensor = 0; tensor < 6; ++tensor) {
      wholes.push_back(rig.device->acquire(Category::grads, Type::f32, cuts.whole()));
      const View whole = wholes.back().all();
      plain::fill(whole, check.place(), first_of(tensor));
      const View mine = whole.part(check.own());
      const Label label{Purpose::reduce_grads, tensor, "unit"};
      if (tensor % 3 == 0) handles.push_back(rig.transport->reduce_scatter({whole, mine, cuts, 2.0F, label}));
      if (tensor % 3 == 1) handles.push_back(rig.transport->all_gather({mine, whole, cuts, label}));
      if (tensor % 3 == 2) handles.push_back(rig.transport->all_reduce({whole, cuts, 2.0F, label}));
    }
    if (rig.transport->rank() % 2 == 1) std::reverse(handles.begin(), handles.end());
    for (Handle& handle : handles) handle.wait();
    for (int tensor = 0; tensor < static_cast<int>(wholes.size()); ++tensor) {
      const View whole = wholes[static_cast<size_t>(tensor)].all();
      check.first = first_of(tensor);
      if (tensor % 3 == 0) check.expect_sums(whole.part(check.own()), check.own(), 2.0F);
      if (tensor % 3 == 1) check.expect_slices(whole);
      if (tensor % 3 == 2) check.expect_sums(whole, {{0}, cuts.whole()}, 2.0F);
    }
  });
}

TEST_P(EveryTransport, OrdersAccessesAndCollectivesByTheirBuffers) {
  on_every_rank([&](TestRig& rig, const Places& places) {
    const int world = GetParam().on.world;
    const Cuts cuts = Cuts::equal(world, {9001});
    const Check check{rig, GetParam().algorithm, places, cuts, Type::f32};
    Buffer whole = rig.device->acquire(Category::grads, Type::f32, cuts.whole());
    plain::fill(whole.all(), check.place());
    const View mine = whole.part(check.own());
    // Nobody waits: the gather waits for the sum, the read for the gather, the buffer's end for the last one.
    rig.transport->reduce_scatter({whole.all(), mine, cuts, 1.0F, {Purpose::reduce_grads, 0, "a"}});
    rig.transport->all_gather({mine, whole.all(), cuts, {Purpose::gather_params, 0, "a"}});
    check.expect_sums(whole.all(), {{0}, cuts.whole()}, 1.0F);
    // Sums of sums: small integers, so exact.
    std::fill_n(whole.all().write<float>(), cuts.whole().n, static_cast<float>(check.place() + 1));
    for (int again = 0; again < 2; ++again) {
      rig.transport->all_reduce({whole.all(), cuts, 1.0F, {Purpose::reduce_grads, 0, "a"}});
    }
    const int total = world * world * (world + 1) / 2;
    check.expect(whole.all(), {{0}, cuts.whole()},
                 std::vector<uint64_t>(static_cast<size_t>(cuts.whole().n),
                                       std::bit_cast<uint32_t>(static_cast<float>(total))));
    rig.transport->all_gather({mine, whole.all(), cuts, {Purpose::gather_params, 0, "a"}});
  });
}

// Two buckets of one buffer at once, and a rest that no bucket holds.
TEST_P(EveryTransport, MovesBucketsOfEverySliceAndNothingElse) {
  on_every_rank([&](TestRig& rig, const Places&) {
    const int world = GetParam().on.world;
    const int64_t slice = world <= 4 ? 66001 : 9001;
    for (const Type type : {Type::f32, Type::bf16}) {
      Cuts cuts = Cuts::equal(world, {slice});
      std::vector<Range> buckets{{{0}, {5}}, {{5}, {slice - 3}}};
      Buffer whole = rig.device->acquire(Category::grads, type, cuts.whole());
      plain::fill(whole.all(), rig.transport->place());
      for (const Range& bucket : buckets) {
        cuts.within = bucket;
        rig.transport->all_reduce({whole.all(), cuts, 3.0F, {Purpose::reduce_grads, 0, "a"}});
      }
      const std::vector<uint64_t> bits = plain::bits_of(whole.all());
      for (int64_t i = 0; i < cuts.whole().n; ++i) {
        const uint64_t expected = i % slice < slice - 3
                                      ? plain::sum_bits(GetParam().algorithm, type, type, world, i, 3.0F,
                                                        static_cast<int>(i / slice))
                                      : plain::own_bits(type, rig.transport->place(), i);
        ASSERT_EQ(bits[static_cast<size_t>(i)], expected) << name_of(type) << " element " << i;
      }
      int64_t bytes = 0;
      for (const auto& [rank, traffic] : rig.link.sent) bytes += traffic.bytes;
      EXPECT_EQ(bytes, 2 * (world - 1) * (slice - 3) * size_of(type).n);
      rig.link.sent.clear();
    }
  });
}

// The variable is Open MPI's; what other libraries do is not known.
TEST(Links, YieldWhereTheirLibraryDoes) {
  const char* set = std::getenv("OMPI_MCA_mpi_yield_when_idle");
  for (const TransportRow& row : transports()) {
    const std::vector<int> worlds = worlds_here(row);
    if (worlds.empty() || (row.name == "mpi" && set == nullptr)) continue;
    const bool expected =
        row.name == "mpi" && mpi_version().starts_with("Open MPI") && std::string_view(set) == "1";
    row.run(worlds.front(), 60.0,
            [&](Endpoint& end) { EXPECT_EQ(end.link->yields(), expected) << row.name; });
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryTransport, testing::ValuesIn(cases()),
                         [](const auto& info) { return name_of(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryTransport);

}  // namespace
}  // namespace zp
