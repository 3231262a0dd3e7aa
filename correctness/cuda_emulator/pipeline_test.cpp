// Streams that forget a wait: every kind shows in the values of some seed, under each schedule; the right
// pipeline is right in every one. A serial run repeats exactly.
#include "correctness/cuda_emulator/pipeline.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "correctness/cuda_emulator/settings.hpp"

namespace zp::lab {
namespace {

using emulated::Schedule;
using emulated::Settings;

constexpr std::uint64_t kScheduleSeeds = 20;

Settings with(Schedule schedule, std::uint64_t seed) {
  return {.schedule = schedule, .seed = seed, .delay_us = schedule == Schedule::serial ? 0 : 1000};
}

struct Case {
  Schedule schedule;
  int bug;
};

class EveryBug : public testing::TestWithParam<Case> {};

TEST_P(EveryBug, ShowsInTheValuesOfSomeSeed) {
  const auto [schedule, bug] = GetParam();
  std::uint64_t seed = 1;
  int wrong = 0;
  for (; seed <= kScheduleSeeds && wrong == 0; ++seed) {
    emulated::configure(with(schedule, seed));
    wrong = wrong_elements(static_cast<Bug>(bug));
  }
  EXPECT_GT(wrong, 0) << "in none of " << kScheduleSeeds << " seeds";
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int bug = 1; bug <= kBugs; ++bug) {
    all.push_back({Schedule::free_running, bug});
    all.push_back({Schedule::serial, bug});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Bugs, EveryBug, testing::ValuesIn(cases()), [](const auto& info) {
  return std::to_string(info.param.bug) + (info.param.schedule == Schedule::serial ? "_serial" : "_free");
});

TEST(RightPipeline, IsRightInEverySeed) {
  for (const Schedule schedule : {Schedule::free_running, Schedule::serial}) {
    for (std::uint64_t seed = 0; seed <= kScheduleSeeds; ++seed) {
      emulated::configure(with(schedule, seed));
      ASSERT_EQ(wrong_elements(Bug::none), 0) << "seed " << seed;
    }
  }
}

TEST(SerialSchedule, RepeatsExactly) {
  int different = 0;
  std::vector<int> last;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    std::vector<int> wrong;
    for (int run = 0; run < 3; ++run) {
      emulated::configure(with(Schedule::serial, seed));
      wrong.push_back(wrong_elements(Bug::reduction_waits_for_no_gradient));
      EXPECT_EQ(emulated::counts().takeovers, 0U) << "this thread never waits outside CUDA";
    }
    EXPECT_EQ(wrong, std::vector<int>(3, wrong.front())) << "seed " << seed;
    if (wrong != last) ++different;
    last = wrong;
  }
  EXPECT_GT(different, 1) << "another seed is another run";
}

}  // namespace
}  // namespace zp::lab
