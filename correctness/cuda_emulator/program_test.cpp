// Wrong uses that CUDA has no error code for end the process and say why: wrong barriers, masks, memory
// overruns, deadlocks.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "correctness/cuda_emulator/run_program.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::lab {
namespace {

#if ZP_ADDRESS_SANITIZED
constexpr int kOverrunExit = 1;  // the sanitizer's, at the access itself
constexpr const char* kOverrunSays = "heap-buffer-overflow";
#else
constexpr int kOverrunExit = emulated::kFaultExit;
constexpr const char* kOverrunSays = "of an allocation of 1200 bytes was written";
#endif

void expect_fault(const Outcome& outcome, const std::string& words) {
  EXPECT_EQ(outcome.code, emulated::kFaultExit) << outcome.text;
  EXPECT_TRUE(outcome.says(words)) << outcome.text;
}

TEST(Fault, NamesTwoBarriersThatThreadsOfABlockWaitAt) {
  const Outcome outcome = run_program("different_barriers");
  expect_fault(outcome, "threads of a block wait at different barriers");
  EXPECT_TRUE(outcome.says("lab.cu:")) << outcome.text;
}

TEST(Fault, NamesABarrierThatCanNeverComplete) {
  const Outcome outcome = run_program("endless_barrier");
  expect_fault(outcome, "a barrier that can never complete");
  EXPECT_TRUE(outcome.says("for lanes of their warp") && outcome.says("for the block")) << outcome.text;
}

TEST(Fault, NamesALaneOutsideItsOwnMask) {
  expect_fault(run_program("outside_mask"), "is not in its own mask 0000ffff");
}

TEST(Fault, NamesWritesBehindDynamicSharedMemory) {
  EXPECT_EQ(run_program("shared_overrun 0").code, 0);
  expect_fault(run_program("shared_overrun 1"), "byte 128 of 128 bytes of dynamic shared memory was written");
}

TEST(Fault, NamesWritesBehindDeviceMemory) {
  EXPECT_EQ(run_program("overrun 0").code, 0);
  const Outcome outcome = run_program("overrun 1");
  EXPECT_EQ(outcome.code, kOverrunExit) << outcome.text;
  EXPECT_TRUE(outcome.says(kOverrunSays)) << outcome.text;
}

TEST(Fault, NamesAHostThatTouchesMemoryOfADevice) {
  for (const std::string schedule : {"ZP_EMULATED_CUDA_SCHEDULE=free", "ZP_EMULATED_CUDA_SCHEDULE=serial"}) {
    EXPECT_EQ(run_program("host_read 2", schedule).code, 0);
    EXPECT_EQ(run_program("host_read 0", schedule + " ZP_EMULATED_CUDA_GUARD=0").code, 0)
        << "as was asked for";
    if (ZP_ADDRESS_SANITIZED == 1) continue;  // memory comes from malloc then
    expect_fault(run_program("host_read 0", schedule), "the host touches memory of a device at ");
    expect_fault(run_program("host_read 1", schedule), "a host function touches memory of a device at ");
  }
}

TEST(Fault, NamesWhoWaitsForWhatInADeadlock) {
  const std::string soon = "ZP_EMULATED_CUDA_DEADLINE_S=1 ZP_EMULATED_CUDA_SCHEDULE=";
  expect_fault(run_program("deadlock", soon + "serial"), "does not come back from cudaLaunchHostFunc");
  const Outcome outcome = run_program("deadlock", soon + "free");
  expect_fault(outcome, "deadlock in cudaStreamSynchronize");
  EXPECT_TRUE(outcome.says("is blocked at cudaStreamWaitEvent")) << outcome.text;
}

TEST(Plugin, IsOpenedByAProgramThatRuns) {
  void* const library = dlopen(ZP_EMULATOR_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto run = reinterpret_cast<int (*)()>(dlsym(library, "zp_emulator_plugin"));
  ASSERT_NE(run, nullptr) << dlerror();
  EXPECT_EQ(run(), 1);
  int elsewhere = 0;
  std::thread([&] { elsewhere = run(); }).join();
  EXPECT_EQ(elsewhere, 1);
}

TEST(Settings, ThatAreNoneAreRefused) {
  expect_fault(run_program("pipeline", "ZP_EMULATED_CUDA_SEED=x"), "ZP_EMULATED_CUDA_SEED=x is no number");
  expect_fault(run_program("pipeline", "ZP_EMULATED_CUDA_SCHEDULE=x"), "neither free nor serial");
  EXPECT_EQ(run_program("pipeline", "ZP_EMULATED_CUDA_SCHEDULE=serial ZP_EMULATED_CUDA_SEED=7").code, 0);
}

}  // namespace
}  // namespace zp::lab
