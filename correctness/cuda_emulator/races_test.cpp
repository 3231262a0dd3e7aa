// Under the thread sanitizer every missing wait is reported in every seed and under each schedule, whether
// the values were right or not, and a right program is not reported at all. Built where ZP_SANITIZE is
// thread.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "correctness/cuda_emulator/pipeline.hpp"
#include "correctness/cuda_emulator/run_program.hpp"

namespace zp::lab {
namespace {

constexpr int kSeeds = 5;
constexpr int kRaceExit = 66;
const std::vector<std::string> kSchedules{"free", "serial"};

struct Count {
  int runs = 0, reported = 0;
  std::string text;
};

// Over seeds and schedules. A report ends the process with an exit code of its own.
Count count_reports(const std::string& arguments, const std::string& more = "") {
  Count count;
  for (const std::string& schedule : kSchedules) {
    for (int seed = 1; seed <= kSeeds; ++seed) {
      const Outcome outcome = run_program(
          arguments, "TSAN_OPTIONS=halt_on_error=1:exitcode=" + std::to_string(kRaceExit) +
                         " ZP_EMULATED_CUDA_SCHEDULE=" + schedule +
                         " ZP_EMULATED_CUDA_SEED=" + std::to_string(seed) +
                         " ZP_EMULATED_CUDA_DELAY_US=" + (schedule == "free" ? "300 " : "0 ") + more);
      ++count.runs;
      const bool reported = outcome.code == kRaceExit && outcome.says("WARNING: ThreadSanitizer: data race");
      count.reported += reported ? 1 : 0;
      if (!outcome.text.empty()) count.text = outcome.text;
      EXPECT_TRUE(reported || outcome.code <= 1) << outcome.code << "\n" << outcome.text;
    }
  }
  return count;
}

class EveryRace : public testing::TestWithParam<int> {};

TEST_P(EveryRace, IsReportedInEverySeed) {
  const Count count = count_reports("pipeline " + std::to_string(GetParam()));
  EXPECT_EQ(count.reported, count.runs) << count.text;
}

INSTANTIATE_TEST_SUITE_P(Bugs, EveryRace, testing::Range(1, kBugs + 1));

TEST(RightProgram, IsNotReported) {
  for (const char* arguments :
       {"pipeline 0", "copies 0", "freed_in_use 1", "freed_unwaited 1", "read_after_destruction 1"}) {
    const Count count = count_reports(arguments);
    EXPECT_EQ(count.reported, 0) << arguments << "\n" << count.text;
  }
}

TEST(Race, IsReportedWhereMemoryIsFreedInUseOrReadAfterAStreamWasDestroyed) {
  for (const char* arguments : {"freed_in_use 0", "freed_unwaited 0", "read_after_destruction 0"}) {
    const Count count = count_reports(arguments);
    EXPECT_EQ(count.reported, count.runs) << arguments << "\n" << count.text;
  }
}

// Each CUDA thread a thread of the sanitizer's.
const std::string kWithinBlocks = "ZP_EMULATED_CUDA_RACE_CHECK=1";

TEST(RaceWithinABlock, IsReportedWhereABarrierIsMissing) {
  for (const char* arguments : {"unguarded_sum", "unguarded_product"}) {
    const Count count = count_reports(arguments, kWithinBlocks);
    EXPECT_EQ(count.reported, count.runs) << arguments << "\n" << count.text;
    EXPECT_NE(count.text.find("lab.cu:"), std::string::npos) << count.text;
  }
}

TEST(RaceWithinABlock, IsNotReportedWhereBarriersAreRight) {
  for (const char* arguments : {"guarded_sum", "guarded_product", "copies 0"}) {
    const Count count = count_reports(arguments, kWithinBlocks);
    EXPECT_EQ(count.reported, 0) << arguments << "\n" << count.text;
  }
}

}  // namespace
}  // namespace zp::lab
