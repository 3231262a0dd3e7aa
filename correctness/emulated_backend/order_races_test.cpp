// Each wait of a buffer's order is needed: with one left out the thread sanitizer reports a race in every
// seed and schedule, and with all of them none. Without that sanitizer only the right program is run.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "correctness/emulated_backend/race_run.hpp"

namespace zp {
namespace {

struct Use {
  const char* program;
  const char* name;
  int memory_mb = 3;
  friend std::ostream& operator<<(std::ostream& out, const Use& use) { return out << use.name; }
};

// Of kernels, copies and the host, and of collectives that NCCL carries.
std::vector<Use> uses() {
  std::vector<Use> all;
  for (const char* name : {"read_after_write", "write_after_read", "write_after_write", "host_read",
                           "host_write", "drop", "other_memory_after_a_drop", "device_ends_after_a_drop",
                           "send", "receive", "aware_send", "aware_receive"})
    all.push_back({ZP_ORDER_PROGRAM, name});
#if ZP_CUBLASLT
  for (const char* name : {"product_after_write", "write_after_product", "read_of_product",
                           "table_ends_before_its_product", "product_in_memory_given_back"})
    all.push_back({ZP_ORDER_PROGRAM, name, 33});
#endif
#ifdef ZP_CARRIED_ORDER_PROGRAM
  // Of calls of NCCL: until one has put its work on the stream.
  for (const char* name : {"kernels_read_after_a_group_of_calls", "kernels_read_after_a_gather_by_nccl",
                           "kernels_read_after_a_sum_by_nccl", "kernels_read_after_slices_of_a_sum_by_nccl"})
    all.push_back({ZP_CARRIED_ORDER_PROGRAM, name});
#endif
  return all;
}

int run(const Use& use, const std::string& more, int seed, const std::string& schedule) {
  return run_ordered(use.program, use.name + more,
                     {.schedule = schedule, .seed = seed, .memory_mb = use.memory_mb})
      .code;
}

class Wait : public testing::TestWithParam<Use> {};

TEST_P(Wait, IsEnough) {
  for (const char* schedule : {"free", "serial"}) {
    for (int seed = 1; seed <= 3; ++seed)
      EXPECT_EQ(run(GetParam(), "", seed, schedule), 0) << schedule << seed;
  }
}

#if ZP_THREAD_SANITIZED
TEST_P(Wait, IsNeeded) {
  for (const char* schedule : {"free", "serial"}) {
    for (int seed = 1; seed <= 3; ++seed)
      EXPECT_EQ(run(GetParam(), " forget", seed, schedule), kRaceExit) << schedule << seed;
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Of, Wait, testing::ValuesIn(uses()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace zp
