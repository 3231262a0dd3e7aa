// Statistics of samples that are known, the order of turns, and the clock of transfers.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "harness/measure/rounds.hpp"
#include "harness/measure/statistics.hpp"
#include "harness/transport/clock.hpp"

namespace zp {
namespace {

TEST(Median, IsTheMiddleSample) {
  EXPECT_EQ(median({}), 0.0);
  EXPECT_EQ(median({7}), 7.0);
  EXPECT_EQ(median({3, 1, 2}), 2.0);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({1, 1, 1, 1000}), 1.0) << "one sample that was disturbed counts for nothing";
}

TEST(Summary, IsOfKnownSamples) {
  const Summary summary = summary_of({0.5, 0.125, 2.0, 0.25});
  EXPECT_EQ(summary.count, 4U);
  EXPECT_EQ(summary.least, 0.125);
  EXPECT_EQ(summary.median, 0.375);
  EXPECT_EQ(summary.most, 2.0);
  EXPECT_EQ(summary_of({}).count, 0U);
  EXPECT_EQ(summary_of({}).most, 0.0);
}

TEST(Turns, NameEveryContenderOnceAndBeginWithEach) {
  std::set<size_t> first;
  for (int round = 0; round < 6; ++round) {
    std::vector<size_t> turns = turns_of(round, 6);
    first.insert(turns.front());
    std::ranges::sort(turns);
    EXPECT_EQ(turns, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
  }
  EXPECT_EQ(first.size(), 6U);
  EXPECT_EQ(turns_of(3, 1), std::vector<size_t>{0});
  EXPECT_TRUE(turns_of(0, 0).empty());
}

// Seconds that pass are said by the test.
class ClockOfTransfers : public testing::Test {
 protected:
  static void pass(int seconds) { now_ += std::chrono::seconds(seconds); }
  static std::chrono::steady_clock::time_point now_;
  TransportClock clock_{[] { return now_; }};
};
std::chrono::steady_clock::time_point ClockOfTransfers::now_;

TEST_F(ClockOfTransfers, CountsNothingWhereNoTransferIs) {
  pass(1);
  const TransportSeconds seconds = clock_.take();
  EXPECT_EQ(seconds.exposed, 0.0);
  EXPECT_EQ(seconds.hidden, 0.0);
}

TEST_F(ClockOfTransfers, CountsCallsAsExposedAndTheRestOfATransferAsHidden) {
  {
    const TransportClock::Inside call(&clock_);
    pass(1);
    clock_.under_way(2);
    {
      const TransportClock::Inside within(&clock_);  // a kernel of the transport that polls
      pass(2);
    }
    pass(4);
  }
  pass(8);
  clock_.under_way(1);
  pass(16);
  {
    const TransportClock::Inside wait(&clock_);
    pass(32);
    clock_.under_way(0);
  }
  pass(64);
  const TransportSeconds seconds = clock_.take();
  EXPECT_EQ(seconds.exposed, 1 + 2 + 4 + 32);
  EXPECT_EQ(seconds.hidden, 8 + 16);
  EXPECT_EQ(clock_.take().exposed, 0.0) << "what was taken is not counted again";
}

TEST_F(ClockOfTransfers, MayBeAbsent) { const TransportClock::Inside call(nullptr); }

}  // namespace
}  // namespace zp
