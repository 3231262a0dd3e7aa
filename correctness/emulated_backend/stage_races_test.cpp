// A whole stage on the emulated device, over messages that are staged, that are handed on where they lie, and
// over NCCL's, is proved without a race; where streams do not wait for each other the thread sanitizer
// reports one.
#include <gtest/gtest.h>

#include "correctness/emulated_backend/race_run.hpp"

namespace zp {
namespace {

class StageWaits : public testing::TestWithParam<const char*> {};

#if ZP_NCCL
constexpr const char* kRoutes[] = {"staged", "gpu-aware", "nccl"};
#else
constexpr const char* kRoutes[] = {"staged", "gpu-aware"};
#endif
INSTANTIATE_TEST_SUITE_P(All, StageWaits, testing::ValuesIn(kRoutes), [](const auto& info) {
  return info.param == std::string("gpu-aware") ? "gpu_aware" : std::string(info.param);
});

// Threads that reach a device's memory by themselves are not to be kept from it.
std::string guard_on(const std::string& route) {
  return route == "gpu-aware" ? "ZP_EMULATED_CUDA_GUARD=0" : "";
}

Ended run_stage(const std::string& route, const std::string& stage, const Setting& setting) {
  return run_ordered(ZP_STAGE_ORDER_PROGRAM, route + " " + stage, setting);
}

TEST_P(StageWaits, AreEnough) {
  for (const char* schedule : {"free", "serial"})
    EXPECT_EQ(run_stage(GetParam(), "zero3", {.schedule = schedule, .more = guard_on(GetParam())}).code, 0)
        << schedule;
}

#if ZP_NCCL
// Where streams order reductions and updated parameters too.
TEST(StageWaitsOverNccl, AreEnoughForReductionsAndNeeded) {
  for (const char* stage : {"ddp", "zero1", "zero2"}) {
    EXPECT_EQ(run_stage("nccl", stage, {.schedule = "free"}).code, 0) << stage;
#if ZP_THREAD_SANITIZED
    EXPECT_EQ(run_stage("nccl", stage, {.schedule = "free", .more = "ZP_EMULATED_CUDA_STREAM_WAITS=0"}).code,
              kRaceExit)
        << stage;
#endif
  }
}
#endif

#if ZP_THREAD_SANITIZED
TEST_P(StageWaits, AreNeeded) {
  for (const char* schedule : {"free", "serial"}) {
    const Ended ended =
        run_stage(GetParam(), "zero3", {.schedule = schedule, .more = "ZP_EMULATED_CUDA_STREAM_WAITS=0"});
    EXPECT_EQ(ended.code, kRaceExit) << schedule;
  }
}
#endif

}  // namespace
}  // namespace zp
