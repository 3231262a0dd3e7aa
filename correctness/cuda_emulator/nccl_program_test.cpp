// Wrong uses of NCCL end the process and name the ranks: calls that do not match, deadlocks.
#include <gtest/gtest.h>

#include "correctness/cuda_emulator/run_program.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::lab {
namespace {

class EveryMismatch : public testing::TestWithParam<int> {};

TEST_P(EveryMismatch, NamesBothRanksAndWhatTheyCalled) {
  const Outcome outcome = run_program("nccl_mismatch " + std::to_string(GetParam()));
  EXPECT_EQ(outcome.code, emulated::kFaultExit) << outcome.text;
  EXPECT_TRUE(outcome.says("ranks call different things: rank")) << outcome.text;
  EXPECT_TRUE(outcome.says("ncclAllReduce of 1000 float32 (sum")) << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryMismatch, testing::Range(0, 5));

TEST(NcclProgram, UngroupedSendsRoundARingAreADeadlock) {
  const std::string soon = "ZP_EMULATED_CUDA_DEADLINE_S=1";
  EXPECT_EQ(run_program("nccl_ring_of_sends 1", soon).code, 0);
  const Outcome outcome = run_program("nccl_ring_of_sends 0", soon);
  EXPECT_EQ(outcome.code, emulated::kFaultExit) << outcome.text;
  for (const char* rank : {"ncclSend, rank 0 of 3", "ncclSend, rank 1 of 3", "ncclSend, rank 2 of 3"}) {
    EXPECT_TRUE(outcome.says(rank)) << outcome.text;
  }
}

TEST(NcclProgram, TrainsRightInEverySeed) {
  for (const char* schedule : {"free", "serial"}) {
    for (int seed = 0; seed < 5; ++seed) {
      const Outcome outcome =
          run_program("nccl_training 0",
                      "ZP_EMULATED_CUDA_DELAY_US=300 ZP_EMULATED_CUDA_SCHEDULE=" + std::string(schedule) +
                          " ZP_EMULATED_CUDA_SEED=" + std::to_string(seed));
      EXPECT_EQ(outcome.code, 0) << outcome.text;
    }
  }
}

}  // namespace
}  // namespace zp::lab
