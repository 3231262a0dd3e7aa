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
  for (const char* name :
       {"read_after_write", "write_after_read", "write_after_write", "host_read", "host_write", "drop",
        "other_memory_after_a_drop", "send", "receive", "aware_send", "aware_receive"})
    all.push_back({ZP_ORDER_PROGRAM, name});
#if ZP_CUBLASLT
  for (const char* name :
       {"product_after_write", "write_after_product", "read_of_product", "table_ends_before_its_product"})
    all.push_back({ZP_ORDER_PROGRAM, name, 33});
#endif
#ifdef ZP_CARRIED_ORDER_PROGRAM
  for (const char* name :
       {"sum_of_what_kernels_wrote", "gather_over_what_kernels_read", "gather_of_a_slice_that_kernels_wrote",
        "kernels_read_a_sum", "kernels_read_what_was_gathered", "kernels_write_where_a_gather_wrote",
        "kernels_write_a_slice_that_a_gather_read", "the_host_reads_what_was_gathered",
        "a_gathered_buffer_ends", "a_transport_ends_whose_pieces_are_added",
        "a_transport_ends_while_an_error_passes", "sum_of_integers_that_kernels_wrote",
        "kernels_read_what_sums_of_integers_became", "kernels_write_an_image_that_was_summed",
        "sum_over_an_image_that_kernels_wrote", "kernels_read_after_a_group_of_calls",
        "kernels_read_after_a_gather_by_nccl", "kernels_read_after_a_sum_by_nccl",
        "kernels_read_after_slices_of_a_sum_by_nccl"})
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
