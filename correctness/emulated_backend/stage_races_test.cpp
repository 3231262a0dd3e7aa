// A whole stage on the emulated device, over staged messages and over NCCL's, is proved without a race; where
// streams do not wait for each other the thread sanitizer reports one.
#include <gtest/gtest.h>

#include "correctness/emulated_backend/race_run.hpp"

namespace zp {
namespace {

class StageWaits : public testing::TestWithParam<const char*> {};

#if ZP_NCCL
constexpr const char* kTransports[] = {"threads", "nccl"};
#else
constexpr const char* kTransports[] = {"threads"};
#endif
INSTANTIATE_TEST_SUITE_P(All, StageWaits, testing::ValuesIn(kTransports),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(StageWaits, AreEnough) {
  for (const char* schedule : {"free", "serial"})
    EXPECT_EQ(run_ordered(ZP_STAGE_ORDER_PROGRAM, GetParam(), {.schedule = schedule}).code, 0) << schedule;
}

#if ZP_THREAD_SANITIZED
TEST_P(StageWaits, AreNeeded) {
  for (const char* schedule : {"free", "serial"}) {
    const Ended ended = run_ordered(ZP_STAGE_ORDER_PROGRAM, GetParam(),
                                    {.schedule = schedule, .more = "ZP_EMULATED_CUDA_STREAM_WAITS=0"});
    EXPECT_EQ(ended.code, kRaceExit) << schedule;
  }
}
#endif

}  // namespace
}  // namespace zp
