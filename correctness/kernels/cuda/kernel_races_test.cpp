// No kernel of the product races within a block, and each of its barriers is needed: without those of one
// line the thread sanitizer reports a race. Built where ZP_SANITIZE is thread.
#include <gtest/gtest.h>

#include <sstream>

#include "correctness/emulated_backend/race_run.hpp"

namespace zp {
namespace {

Ended run_kernels(const std::string& arguments, int seed) {
  return run_ordered(ZP_KERNEL_RACES_PROGRAM, arguments,
                     {.schedule = "free", .seed = seed, .more = "ZP_EMULATED_CUDA_RACE_CHECK=1"});
}

TEST(CudaKernelBarriers, AreEnoughAndNeeded) {
  const Ended right = run_kernels("", 1);
  ASSERT_EQ(right.code, 0);
  std::istringstream lines(right.text);
  std::string file;
  int line = 0, count = 0;
  for (; lines >> file >> line; ++count) {
    const std::string barrier = file + " " + std::to_string(line);
    EXPECT_EQ(run_kernels(barrier, 2).code, kRaceExit) << barrier;
  }
  EXPECT_GT(count, 0) << right.text;
}

}  // namespace
}  // namespace zp
