// Sums in fixed point, on every row of the table: the same bits in any order, exactly the messages of int64,
// and an image that buckets use by turns.
#include "correctness/transport/conformance.hpp"

namespace zp {
namespace {

// Sums of wholes of fp32 that have an image, or of int64 as it is.
struct FixedCheck {
  const Check& check;
  Type result;
  bool converted;

  void expect(const View& got, Range range, float divisor) const {
    std::vector<uint64_t> expected;
    for (int64_t i = range.begin.n; i < range.end.n; ++i) {
      expected.push_back(plain::fixed_sum_bits(got.type(), check.cuts.world(), check.first + i, divisor));
    }
    check.expect(got, range, expected);
  }
  void expect_sent(bool gathers) const {
    if (check.algorithm == Algorithm::native) return;
    plain::TrafficByPlace traffic;
    plain::add_reduce_scatter(traffic, check.algorithm, check.cuts, Type::i64, check.place());
    if (gathers) plain::add_all_gather(traffic, check.algorithm, check.cuts, Type::f32, check.place());
    check.expect_sent(traffic);
  }
  void fill_units(const View& whole) const {
    if (whole.empty()) return;
    int64_t* to = whole.write<int64_t>();
    for (int64_t i = 0; i < whole.length().n; ++i)
      to[i] = plain::units_of(plain::value(check.place(), check.first + i));
  }

  void reduces_and_scatters() const {
    Device& device = *check.rig.device;
    Fenced whole(device, converted ? Type::f32 : Type::i64, check.cuts.whole());
    Fenced mine(device, result, check.own().length());
    Fenced image(device, Type::i64, converted ? check.cuts.whole() : Elements{});
    if (converted) {
      plain::fill(whole.view, check.place());
    } else {
      fill_units(whole.view);
    }
    const float divisor = result == Type::i64 ? 1.0F : 3.0F;
    ReduceScatter call{whole.view, mine.view, check.cuts, divisor, {Purpose::reduce_grads, 3, "block.3"}};
    if (converted) call.fixed = {.image = image.view, .terms = check.cuts.world()};
    check.rig.transport->reduce_scatter(call).wait();
    expect(mine.view, check.own(), divisor);
    expect_sent(false);
    for (Fenced* fenced : {&whole, &mine, &image}) fenced->expect_untouched();
  }

  void all_reduces() const {
    Device& device = *check.rig.device;
    Fenced whole(device, Type::f32, check.cuts.whole());
    Fenced sums(device, Type::i64, check.cuts.whole());  // or the image
    plain::fill(whole.view, check.place());
    AllReduce call{whole.view, check.cuts, 3.0F, {Purpose::reduce_grads, 0, "embeddings"}};
    if (converted) {
      call.fixed = {.image = sums.view, .terms = check.cuts.world()};
    } else {
      fill_units(sums.view);
      call.sums = sums.view;
    }
    check.rig.transport->all_reduce(call).wait();
    expect(whole.view, {{0}, check.cuts.whole()}, 3.0F);
    expect_sent(true);
    whole.expect_untouched();
    sums.expect_untouched();
  }
};

class EveryTransportInFixedPoint : public EveryTransport {};

TEST_P(EveryTransportInFixedPoint, SumsFixedPointInAnyOrderToTheSameBits) {
  on_every_rank([&](TestRig& rig, const Places& places) {
    for (const Cuts& cuts : cuts_of(GetParam().on.world)) {
      const Check check{rig, GetParam().algorithm, places, cuts, Type::f32};
      FixedCheck{check, Type::f32, true}.reduces_and_scatters();
      FixedCheck{check, Type::i64, true}.reduces_and_scatters();
      FixedCheck{check, Type::f32, false}.reduces_and_scatters();
      FixedCheck{check, Type::f32, true}.all_reduces();
      FixedCheck{check, Type::f32, false}.all_reduces();
    }
  });
}

// Buckets of one whole take turns with one image, no longer than the largest of them.
TEST_P(EveryTransportInFixedPoint, ConvertsBucketsOneAfterAnother) {
  on_every_rank([&](TestRig& rig, const Places&) {
    const int world = GetParam().on.world;
    const int64_t slice = 9001;
    Cuts cuts = Cuts::equal(world, {slice});
    Buffer whole = rig.device->acquire(Category::grads, Type::f32, cuts.whole());
    Buffer image = rig.device->acquire(Category::transport, Type::i64, {world * (slice - 8)});
    plain::fill(whole.all(), rig.transport->place());
    for (const Range& bucket : {Range{{0}, {5}}, Range{{5}, {slice - 3}}}) {
      cuts.within = bucket;
      AllReduce call{whole.all(), cuts, 3.0F, {Purpose::reduce_grads, 0, "a"}};
      call.fixed = {.image = image.all(), .terms = world};
      rig.transport->all_reduce(call);
    }
    const std::vector<uint64_t> bits = plain::bits_of(whole.all());
    for (int64_t i = 0; i < cuts.whole().n; ++i) {
      if (i % slice >= slice - 3) continue;
      ASSERT_EQ(bits[static_cast<size_t>(i)], plain::fixed_sum_bits(Type::f32, world, i, 3.0F)) << i;
    }
    EXPECT_EQ(rig.kernels.converted, world * (slice - 3));
    rig.kernels.converted = 0;
    rig.link.sent.clear();
  });
}

TEST(NativeCollectives, SumFixedPointToTheSameBits) {
  on_native([](TestRig& rig, const Places& places) {
    for (const Cuts& cuts : library_cuts_of(rig.transport->world())) {
      const Check check{rig, Algorithm::native, places, cuts, Type::f32};
      FixedCheck{check, Type::f32, true}.reduces_and_scatters();
      FixedCheck{check, Type::i64, true}.reduces_and_scatters();
      FixedCheck{check, Type::f32, false}.reduces_and_scatters();
      FixedCheck{check, Type::f32, true}.all_reduces();
      FixedCheck{check, Type::f32, false}.all_reduces();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, EveryTransportInFixedPoint, testing::ValuesIn(cases()),
                         [](const auto& info) { return name_of(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryTransportInFixedPoint);

}  // namespace
}  // namespace zp
