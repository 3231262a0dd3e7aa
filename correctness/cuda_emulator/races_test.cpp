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

constexpr int kRaceExit = 66;

struct Runs {
  std::vector<std::string> schedules{"free", "serial"};
  int seeds = 5;
  std::string settings;
};

struct Count {
  int runs = 0, reported = 0;
  std::string text;
};

// A report ends the process with an exit code of its own.
Count count_reports(const std::string& arguments, const Runs& runs = {}) {
  const std::string sanitizer =
      "TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=0:exitcode=" + std::to_string(kRaceExit);
  Count count;
  for (const std::string& schedule : runs.schedules) {
    for (int seed = 1; seed <= runs.seeds; ++seed) {
      const Outcome outcome =
          run_program(arguments, sanitizer + " ZP_EMULATED_CUDA_SCHEDULE=" + schedule +
                                     " ZP_EMULATED_CUDA_SEED=" + std::to_string(seed) +
                                     " ZP_EMULATED_CUDA_DELAY_US=" + (schedule == "free" ? "300 " : "0 ") +
                                     runs.settings);
      const bool reported = outcome.code == kRaceExit && outcome.says("WARNING: ThreadSanitizer: ");
      ++count.runs;
      count.reported += reported ? 1 : 0;
      if (!outcome.text.empty()) count.text = outcome.text;
      EXPECT_TRUE(reported || outcome.code == 0 || outcome.code == 1) << outcome.code << "\n" << outcome.text;
    }
  }
  return count;
}

class EveryRace : public testing::TestWithParam<int> {};

TEST_P(EveryRace, IsReportedInEverySeed) {
  const Count count = count_reports("pipeline " + std::to_string(GetParam()));
  EXPECT_EQ(count.reported, count.runs) << count.text;
}

INSTANTIATE_TEST_SUITE_P(All, EveryRace, testing::Range(1, kBugs + 1));

class RightProgram : public testing::TestWithParam<const char*> {};

TEST_P(RightProgram, IsNotReported) {
  const Count count = count_reports(GetParam());
  EXPECT_EQ(count.reported, 0) << count.text;
}

const auto name_of = [](const auto& info) {
  std::string name = info.param;
  for (char& letter : name) letter = letter == ' ' ? '_' : letter;
  return name;
};

INSTANTIATE_TEST_SUITE_P(All, RightProgram,
                         testing::Values("pipeline 0", "copies 0", "freed_in_use 1", "freed_unwaited 1",
                                         "read_after_destruction 1", "nccl_every_call", "nccl_training 0",
                                         "nccl_token 0"),
                         name_of);

class RacyProgram : public testing::TestWithParam<const char*> {};

TEST_P(RacyProgram, IsReportedInEverySeed) {
  const Count count = count_reports(GetParam());
  EXPECT_EQ(count.reported, count.runs) << count.text;
}

INSTANTIATE_TEST_SUITE_P(All, RacyProgram,
                         testing::Values("freed_in_use 0", "freed_unwaited 0", "read_after_destruction 0",
                                         "nccl_training 1", "nccl_training 2", "nccl_training 3",
                                         "nccl_token 1"),
                         name_of);

// Each CUDA thread a thread of the sanitizer's: slow, and the schedule of streams has no part in it.
const Runs kWithinBlocks{.schedules = {"free"}, .seeds = 2, .settings = "ZP_EMULATED_CUDA_RACE_CHECK=1"};

class RacyKernel : public testing::TestWithParam<const char*> {};

TEST_P(RacyKernel, IsReportedWithItsLine) {
  const Count count = count_reports(GetParam(), kWithinBlocks);
  EXPECT_EQ(count.reported, count.runs) << count.text;
  EXPECT_NE(count.text.find("lab.cu:"), std::string::npos) << count.text;
}

INSTANTIATE_TEST_SUITE_P(All, RacyKernel, testing::Values("unguarded_sum", "unguarded_product"), name_of);

class RightKernel : public testing::TestWithParam<const char*> {};

TEST_P(RightKernel, IsNotReported) {
  const Count count = count_reports(GetParam(), kWithinBlocks);
  EXPECT_EQ(count.reported, 0) << count.text;
}

INSTANTIATE_TEST_SUITE_P(All, RightKernel,
                         testing::Values("guarded_sum", "guarded_product", "many_blocks", "copies 0"),
                         name_of);

}  // namespace
}  // namespace zp::lab
