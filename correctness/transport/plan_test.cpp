// What is decided before any message is sent: cuts, default algorithms, rounds, tags, and the launcher's
// world.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "harness/transport/rounds.hpp"
#include "harness/transport/tag_packing.hpp"
#include "harness/transport/transport.hpp"

namespace zp {
namespace {

using transport::TagPacking;

TEST(Cuts, AreEqualSlicesInPlaceOrder) {
  const Cuts cuts = Cuts::equal(3, {5});
  EXPECT_EQ(cuts.world(), 3);
  EXPECT_EQ(cuts.whole(), Elements{15});
  EXPECT_EQ(cuts.of(2), (Range{{10}, {15}}));
}

TEST(DefaultAlgorithm, HalvesOnlyWherePowersOfTwoTravelUnrounded) {
  for (const int world : {1, 2, 4, 8}) {
    EXPECT_EQ(default_algorithm(world, Type::f32), Algorithm::halving) << world;
    EXPECT_EQ(default_algorithm(world, Type::bf16), Algorithm::direct) << world;
  }
  for (const int world : {3, 5, 6, 7})
    EXPECT_EQ(default_algorithm(world, Type::f32), Algorithm::direct) << world;
}

TEST(Halving, ExchangesTheLargestRangesWithTheFarthestPlace) {
  const auto rounds = transport::reduce_rounds(Algorithm::halving, Cuts::equal(4, {10}), 1);
  ASSERT_EQ(rounds.size(), 2U);
  EXPECT_EQ(rounds[0][0].place, 3);
  EXPECT_EQ(rounds[0][0].sent, (std::vector<Range>{{{20}, {40}}}));
  EXPECT_EQ(rounds[0][0].received, (std::vector<Range>{{{0}, {20}}}));
  EXPECT_EQ(rounds[1][0].place, 0);
  EXPECT_EQ(rounds[1][0].sent, (std::vector<Range>{{{0}, {10}}}));
  EXPECT_EQ(rounds[1][0].received, (std::vector<Range>{{{10}, {20}}}));
}

TEST(Ring, PassesEverySliceOnUntilItsOwnerHasItLast) {
  const std::vector<Range> a{{{0}, {10}}}, b{{{10}, {20}}}, c{{{20}, {30}}};
  const auto reduce = transport::reduce_rounds(Algorithm::ring, Cuts::equal(3, {10}), 1);
  ASSERT_EQ(reduce.size(), 2U);
  for (const auto& round : reduce) {
    EXPECT_EQ(round[0].place, 0);
    EXPECT_EQ(round[1].place, 2);
  }
  EXPECT_EQ(reduce[0][0].received, c);
  EXPECT_EQ(reduce[0][1].sent, a);
  EXPECT_EQ(reduce[1][0].received, b) << "its own";
  EXPECT_EQ(reduce[1][1].sent, c);
  const auto gather = transport::gather_rounds(Algorithm::ring, Cuts::equal(3, {10}), 1);
  ASSERT_EQ(gather.size(), 2U);
  EXPECT_EQ(gather[0][0].received, a);
  EXPECT_EQ(gather[0][1].sent, b) << "its own";
  EXPECT_EQ(gather[1][0].received, c);
  EXPECT_EQ(gather[1][1].sent, a);
}

TEST(Tags, TellSequencesAndTensorsApartWithinWhatTheLibraryAllows) {
  for (const int largest : {32767, 2147483647}) {
    const TagPacking packing(largest);
    std::set<int> seen;
    for (int64_t sequence = 1000000; sequence < 1000100; ++sequence) {
      for (int tensor = -1; tensor < 50; ++tensor) {
        const int tag = packing.pack({sequence, tensor, Purpose::reduce_grads});
        EXPECT_GE(tag, 0);
        EXPECT_LE(tag, largest);
        EXPECT_TRUE(seen.insert(tag).second) << sequence << " " << tensor;
      }
    }
  }
}

TEST(LaunchedWorld, IsWhatTheLauncherSaysAndNothingElse) {
  if (launched_world() > 0) return;  // this process has a launcher of its own
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    setenv(name, "6", 1);
    EXPECT_EQ(launched_world(), 6) << name;
    unsetenv(name);
  }
  setenv("SLURM_STEP_NUM_TASKS", "1", 1);
  EXPECT_EQ(launched_world(), 0) << "a shell in an allocation";
  unsetenv("SLURM_STEP_NUM_TASKS");
  setenv("SLURM_NTASKS", "6", 1);
  EXPECT_EQ(launched_world(), 0) << "an allocation, not a step";
  unsetenv("SLURM_NTASKS");
}

}  // namespace
}  // namespace zp
