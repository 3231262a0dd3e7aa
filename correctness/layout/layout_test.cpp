// The cut of parameters into units and slices: properties over many shapes and worlds, and small
// examples.
#include "harness/layout/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/layout/uses.hpp"

namespace zp {
namespace {

UnitSpec unit_of(const std::string& name, const std::vector<std::vector<int64_t>>& shapes) {
  UnitSpec unit{.name = name, .tensors = {}};
  for (const auto& shape : shapes) {
    TensorSpec tensor;
    tensor.name = name + "." + std::to_string(unit.tensors.size());
    tensor.shape = shape;
    unit.tensors.push_back(tensor);
  }
  return unit;
}

// Lengths 1, around every small world, primes, and more than a block of 64 a rank.
std::vector<UnitSpec> odd_units() {
  return {unit_of("one", {{1}}), unit_of("few", {{2}, {1, 3}}), unit_of("seven", {{7}}),
          unit_of("prime", {{3, 5}, {97}, {1}}), unit_of("blocks", {{64}, {8, 64}, {13}})};
}

struct Case {
  int world;
  int64_t alignment;
};

class EveryLayout : public testing::TestWithParam<Case> {
 protected:
  Layout layout_{odd_units(), GetParam().world, GetParam().alignment};
};

TEST_P(EveryLayout, CutsAUnitIntoEqualSlicesThatCoverItOnce) {
  for (const UnitLayout& unit : layout_.units()) {
    Elements at;
    Elements owned;
    for (int place = 0; place < GetParam().world; ++place) {
      const Range slice = unit.slice_of(place);
      EXPECT_EQ(slice.begin, at) << unit.name << " place " << place;
      EXPECT_EQ(slice.length(), unit.slice);
      const Range mine = unit.owned_by(place);
      EXPECT_EQ(intersection(slice, {{0}, unit.length}).length(), mine.length());
      EXPECT_TRUE(mine.empty() || mine.begin == slice.begin);
      EXPECT_LE(mine.end, unit.length);
      at = slice.end;
      owned += mine.length();
    }
    EXPECT_EQ(at, unit.padded);
    EXPECT_EQ(owned, unit.length);
  }
}

TEST_P(EveryLayout, TakesTheShortestSliceThatIsAMultipleOfTheAlignment) {
  const auto [world, alignment] = GetParam();
  for (const UnitLayout& unit : layout_.units()) {
    EXPECT_EQ(unit.slice.n % alignment, 0);
    EXPECT_EQ(unit.padded, unit.slice * world);
    EXPECT_GE(unit.padded, unit.length);
    EXPECT_LT((unit.slice - Elements{alignment}) * world, unit.length);
  }
}

TEST_P(EveryLayout, LaysTensorsOneAfterAnotherAndNumbersEveryElementOnce) {
  Elements logical;
  int tensors = 0;
  for (const UnitLayout& unit : layout_.units()) {
    EXPECT_EQ(unit.logical_begin, logical);
    Elements in_unit;
    for (const TensorLayout& tensor : unit.tensors) {
      EXPECT_EQ(tensor.index, tensors++);
      EXPECT_EQ(tensor.in_unit.begin, in_unit);
      EXPECT_EQ(tensor.logical_begin, logical);
      EXPECT_EQ(tensor.in_unit.length(), element_count(tensor.spec));
      in_unit = tensor.in_unit.end;
      logical += tensor.in_unit.length();
    }
    EXPECT_EQ(in_unit, unit.length);
  }
  EXPECT_EQ(layout_.parameters(), logical);
  EXPECT_EQ(layout_.tensor_count(), tensors);
}

TEST_P(EveryLayout, FindsEveryElementOfEveryTensorInTheRunsOfOneOwner) {
  for (const UnitLayout& unit : layout_.units()) {
    std::vector<int> owners(static_cast<size_t>(unit.length.n));
    for (int place = 0; place < GetParam().world; ++place) {
      for (const TensorRun& run : runs(unit, unit.slice_of(place))) {
        EXPECT_FALSE(run.in_unit.empty());
        EXPECT_GE(run.in_unit.begin, run.tensor->in_unit.begin);
        EXPECT_LE(run.in_unit.end, run.tensor->in_unit.end);
        for (int64_t i = run.in_unit.begin.n; i < run.in_unit.end.n; ++i) ++owners[static_cast<size_t>(i)];
      }
    }
    EXPECT_EQ(std::ranges::count(owners, 1), unit.length.n) << unit.name;
  }
}

TEST_P(EveryLayout, SumsUpItsUnits) {
  Elements length;
  Elements padded;
  Elements slices;
  for (const UnitLayout& unit : layout_.units()) {
    length += unit.length;
    padded += unit.padded;
    slices += unit.slice;
  }
  EXPECT_EQ(layout_.parameters(), length);
  EXPECT_EQ(layout_.padded(), padded);
  EXPECT_EQ(layout_.slices(), slices);
  EXPECT_EQ(layout_.padded(), layout_.slices() * GetParam().world);
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (int world = 1; world <= 8; ++world) {
    for (const int64_t alignment : {1, 3, 64}) list.push_back({world, alignment});
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Layout, EveryLayout, testing::ValuesIn(cases()), [](const auto& info) {
  return "n" + std::to_string(info.param.world) + "_a" + std::to_string(info.param.alignment);
});

TEST(Layout, LeavesLaterRanksEmptyWhereThereAreFewerParametersThanRanks) {
  const Layout layout({unit_of("three", {{3}})}, 8, 1);
  for (int place = 0; place < 8; ++place) {
    EXPECT_EQ(layout.unit(0).owned_by(place).length(), Elements{place < 3 ? 1 : 0});
    EXPECT_EQ(layout.unit(0).slice_of(place).length(), Elements{1});
  }
  EXPECT_EQ(layout.padded(), Elements{8});
}

TEST(Layout, GivesRankRTwoOfEightParametersOnFourRanks) {
  const Layout layout({unit_of("w", {{8}})}, 4, 1);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(layout.unit(0).owned_by(rank), (Range{{2 * rank}, {2 * rank + 2}}));
  }
}

// W = [10, 20] on two ranks; each updates what it owns, then slices are gathered.
TEST(Layout, MakesReplicasEqualByGatheringTheUpdatedSlices) {
  const Layout layout({unit_of("w", {{2}})}, 2, 1);
  const std::vector<float> updated{9.0F, 18.0F};
  std::vector<std::vector<float>> replica(2, {10.0F, 20.0F});
  const auto copy_owned = [&](int owner, const std::vector<float>& from, std::vector<float>& to) {
    const Range mine = layout.unit(0).owned_by(owner);
    for (int64_t i = mine.begin.n; i < mine.end.n; ++i)
      to[static_cast<size_t>(i)] = from[static_cast<size_t>(i)];
  };
  for (int rank = 0; rank < 2; ++rank) copy_owned(rank, updated, replica[static_cast<size_t>(rank)]);
  EXPECT_EQ(replica[0], (std::vector<float>{9.0F, 20.0F}));
  EXPECT_EQ(replica[1], (std::vector<float>{10.0F, 18.0F}));
  copy_owned(1, replica[1], replica[0]);
  copy_owned(0, replica[0], replica[1]);
  EXPECT_EQ(replica[0], updated);
  EXPECT_EQ(replica[1], updated);
}

// Gradients [2, 6] and [4, 10].
TEST(Layout, LeavesEachRankItsOwnElementOfTheMeanGradient) {
  const Layout layout({unit_of("w", {{2}})}, 2, 1);
  const std::vector<std::vector<float>> grads{{2.0F, 6.0F}, {4.0F, 10.0F}};
  const std::vector<float> mean{3.0F, 8.0F};
  for (int rank = 0; rank < 2; ++rank) {
    const Range mine = layout.unit(0).owned_by(rank);
    ASSERT_EQ(mine.length(), Elements{1});
    const auto i = static_cast<size_t>(mine.begin.n);
    EXPECT_EQ((grads[0][i] + grads[1][i]) / 2.0F, mean[static_cast<size_t>(rank)]);
  }
}

TEST(Layout, KnowsWhichRankStandsAtAPlace) {
  const Layout layout({unit_of("w", {{100}})}, Places{.rank_at = {2, 0, 3, 1}});
  EXPECT_EQ(layout.world(), 4);
  for (int place = 0; place < 4; ++place) {
    EXPECT_EQ(layout.places().place_of(layout.places().rank_at[static_cast<size_t>(place)]), place);
  }
  EXPECT_EQ(Places::in_rank_order(3).rank_at, (std::vector<int>{0, 1, 2}));
}

// Two nodes of four: rank 0 … 3 on the first. place = local·2 + node.
TEST(Places, OfOneNodeStandFurthestApart) {
  const Places places = Places::by_node({0, 0, 0, 0, 4, 4, 4, 4});
  EXPECT_EQ(places.rank_at, (std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(places.nodes(), 2);
  EXPECT_EQ(places.ranks_per_node(), 4);
  EXPECT_TRUE(places.on_one_node(1, 3));
  EXPECT_FALSE(places.on_one_node(3, 4));
  EXPECT_EQ(Places::by_node({0, 1, 0, 1}).rank_at, (std::vector<int>{0, 1, 2, 3})) << "dealt out in turn";
}

TEST(Places, OfUnequalNodesComeNodeByNode) {
  const Places places = Places::by_node({0, 0, 2, 0, 2});
  EXPECT_EQ(places.rank_at, (std::vector<int>{0, 2, 1, 4, 3}));
  EXPECT_EQ(places.ranks_per_node(), 0);
}

TEST(Places, OfOneNodeAreTheRanks) {
  const Places places = Places::by_node({0, 0, 0});
  EXPECT_EQ(places.rank_at, Places::in_rank_order(3).rank_at);
  EXPECT_EQ(places.nodes(), 1);
  EXPECT_EQ(places.ranks_per_node(), 3);
  EXPECT_EQ(Places::in_rank_order(3).nodes(), 1);
}

TEST(Layout, RefusesWhatCannotBeCut) {
  const std::vector<UnitSpec> units{unit_of("w", {{4}})};
  EXPECT_THROW(Layout(units, 0), Error);
  EXPECT_THROW(Layout(units, -1), Error);
  EXPECT_THROW(Layout(units, 2, 0), Error);
  EXPECT_THROW(Layout({}, 2), Error);
  EXPECT_THROW(Layout({unit_of("empty", {})}, 2), Error);
  EXPECT_THROW(Layout({unit_of("flat", {{0}})}, 2), Error);
  EXPECT_THROW(Layout(units, Places{.rank_at = {0, 0}}), Error);
  EXPECT_THROW(Layout(units, Places{.rank_at = {0, 2}}), Error);
  EXPECT_THROW(Layout(units, 2).unit(0).slice_of(2), Error);
  EXPECT_THROW(Layout(units, 2).unit(0).slice_of(-1), Error);
}

TEST(Layout, DecaysTensorsOfTwoOrMoreDimensionsOnly) {
  EXPECT_FALSE(decays({.name = "bias", .shape = {8}}));
  EXPECT_TRUE(decays({.name = "weight", .shape = {8, 1}}));
}

TEST(Uses, GoForwardInOrderAndBackwardInReverse) {
  const Layout layout({unit_of("a", {{4}}), unit_of("b", {{4}}), unit_of("c", {{4}})}, 2);
  const std::vector<Use> expected{{0, Pass::forward},  {1, Pass::forward},  {2, Pass::forward},
                                  {2, Pass::backward}, {1, Pass::backward}, {0, Pass::backward}};
  EXPECT_EQ(uses(layout), expected);
  EXPECT_EQ(read_by(layout, 2), (std::vector<int>{2}));
}

TEST(Uses, ReadTheUnitThatIsBorrowedToo) {
  std::vector<UnitSpec> units{unit_of("a", {{4}}), unit_of("b", {{4}}), unit_of("c", {{4}})};
  units[2].borrows = 0;
  const Layout layout(units, 2);
  EXPECT_EQ(read_by(layout, 2), (std::vector<int>{2, 0}));
  EXPECT_EQ(read_by(layout, 0), (std::vector<int>{0}));
  EXPECT_EQ(layout.unit(2).borrows, 0);
  units[2].borrows = 2;
  EXPECT_THROW(Layout(units, 2), Error);
  units[2].borrows = 1;
  units[1].borrows = 0;
  EXPECT_THROW(Layout(units, 2), Error);
}

TEST(Uses, EndAtTheFirstUnitThatIsTrained) {
  std::vector<UnitSpec> units{unit_of("a", {{4}}), unit_of("b", {{4}}), unit_of("c", {{4}})};
  units[0].frozen = units[2].frozen = true;
  const Layout layout(units, 2);
  const std::vector<Use> expected{
      {0, Pass::forward}, {1, Pass::forward}, {2, Pass::forward}, {2, Pass::backward}, {1, Pass::backward}};
  EXPECT_EQ(uses(layout), expected);
  EXPECT_EQ(layout.trained(), (std::vector<int>{1}));
  EXPECT_EQ(layout.parameters(), Elements{12}) << "frozen parameters are parameters";
  units[1].frozen = true;
  EXPECT_THROW(Layout(units, 2), Error);
}

}  // namespace
}  // namespace zp
