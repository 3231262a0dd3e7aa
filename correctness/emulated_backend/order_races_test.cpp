// Each wait of a buffer's order is needed: with one left out the thread sanitizer reports a race in every
// seed and schedule, and with all of them none. Without that sanitizer only the right program is run.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace zp {
namespace {

constexpr int kRaceExit = 66;

int run(const std::string& arguments, int seed, const std::string& schedule) {
  const std::string command =
      "TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=0:exitcode=" + std::to_string(kRaceExit) +
      " ZP_EMULATED_CUDA_SEED=" + std::to_string(seed) + " ZP_EMULATED_CUDA_SCHEDULE=" + schedule +
      " " ZP_ORDER_PROGRAM " " + arguments + " >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class Wait : public testing::TestWithParam<const char*> {};

TEST_P(Wait, IsEnough) {
  for (const char* schedule : {"free", "serial"}) {
    for (int seed = 1; seed <= 3; ++seed) EXPECT_EQ(run(GetParam(), seed, schedule), 0) << schedule << seed;
  }
}

#if ZP_THREAD_SANITIZED
TEST_P(Wait, IsNeeded) {
  for (const char* schedule : {"free", "serial"}) {
    for (int seed = 1; seed <= 3; ++seed)
      EXPECT_EQ(run(GetParam() + std::string(" forget"), seed, schedule), kRaceExit) << schedule << seed;
  }
}
#endif

std::vector<const char*> uses() {
  std::vector<const char*> list{
      "read_after_write", "write_after_read", "write_after_write", "host_read", "host_write", "drop", "send",
      "receive"};
#if ZP_CUBLASLT
  for (const char* use : {"product_after_write", "write_after_product", "read_of_product"})
    list.push_back(use);
#endif
  return list;
}

INSTANTIATE_TEST_SUITE_P(Of, Wait, testing::ValuesIn(uses()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace zp
