// The worked examples of the ledger that are about collectives: two ranks, two elements, numbers that fit in
// a head.
#include <gtest/gtest.h>

#include "correctness/transport/rig.hpp"

namespace zp {
namespace {

const Label kLabel{Purpose::reduce_grads, 0, "w"};

class Examples : public testing::TestWithParam<RowAndWorld> {
 protected:
  void on_two_ranks(const std::function<void(TestRig&, View)>& body) {
    for (const Algorithm algorithm : {Algorithm::direct, Algorithm::halving}) {
      GetParam().row->run(2, 60.0, [&](Endpoint& endpoint) {
        TestRig rig(endpoint, options_of(algorithm, 2, 60.0));
        Buffer pair = rig.device->acquire(Category::params, Type::f32, {2});
        body(rig, pair.all());
      });
    }
  }
};

void set(const View& pair, float first, float second) {
  pair.write<float>()[0] = first;
  pair.write<float>()[1] = second;
}

void expect_pair(const View& pair, float first, float second) {
  EXPECT_EQ(pair.read<float>()[0], first);
  EXPECT_EQ(pair.read<float>()[1], second);
}

View own(const TestRig& rig, const View& pair) {
  return pair.part(Cuts::equal(2, {1}).of(rig.transport->place()));
}

TEST_P(Examples, UpdatedSlicesAreWholeOnlyAfterTheGather) {
  on_two_ranks([](TestRig& rig, View weights) {
    const bool first = rig.transport->rank() == 0;
    set(weights, first ? 9.0F : 10.0F, first ? 20.0F : 18.0F);
    rig.transport->all_gather({own(rig, weights), weights, Cuts::equal(2, {1}), kLabel});
    expect_pair(weights, 9.0F, 18.0F);
  });
}

TEST_P(Examples, TheMeanOfTwoGradientsIsWholeOrInSlices) {
  on_two_ranks([](TestRig& rig, View grads) {
    const bool first = rig.transport->rank() == 0;
    set(grads, first ? 2.0F : 4.0F, first ? 6.0F : 10.0F);
    rig.transport->all_reduce({grads, Cuts::equal(2, {1}), 2.0F, kLabel});
    expect_pair(grads, 3.0F, 8.0F);

    Buffer mine = rig.device->acquire(Category::grads, Type::f32, {1});
    set(grads, first ? 2.0F : 4.0F, first ? 6.0F : 10.0F);
    rig.transport->reduce_scatter({grads, mine.all(), Cuts::equal(2, {1}), 2.0F, kLabel});
    EXPECT_EQ(*mine.all().read<float>(), first ? 3.0F : 8.0F);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Examples, testing::ValuesIn(rows_and_worlds(2, 2)),
                         [](const auto& info) { return name_of(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Examples);

class AllReduce : public testing::TestWithParam<RowAndWorld> {};

TEST_P(AllReduce, EqualsAReduceScatterThenAGatherInBitsAndInBytesToEveryPeer) {
  const int world = GetParam().world;
  for (const Algorithm algorithm : {Algorithm::direct, default_algorithm(world, Type::f32)}) {
    GetParam().row->run(world, 60.0, [&](Endpoint& endpoint) {
      TestRig rig(endpoint, options_of(algorithm, world, 60.0));
      const Cuts cuts = Cuts::equal(world, {1001});
      const int place = rig.transport->place();
      for (const Type type : {Type::f32, Type::bf16}) {
        Buffer once = rig.device->acquire(Category::grads, type, cuts.whole());
        Buffer twice = rig.device->acquire(Category::grads, type, cuts.whole());
        for (const Buffer* buffer : {&once, &twice}) plain::fill(buffer->all(), place);
        rig.transport->all_reduce({once.all(), cuts, 7.0F, kLabel}).wait();
        const auto sent_once = std::exchange(rig.link.sent, {});
        const View mine = twice.part(cuts.of(place));
        rig.transport->reduce_scatter({twice.all(), mine, cuts, 7.0F, kLabel}).wait();
        rig.transport->all_gather({mine, twice.all(), cuts, kLabel}).wait();
        EXPECT_EQ(sent_once, std::exchange(rig.link.sent, {}));
        ASSERT_EQ(plain::bits_of(once.all()), plain::bits_of(twice.all()));
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, AllReduce, testing::ValuesIn(rows_and_worlds()),
                         [](const auto& info) { return name_of(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AllReduce);

}  // namespace
}  // namespace zp
