// Each wait that is asked of CUDA is needed, whoever asks: buffers, collectives over staged messages and
// those that NCCL carries, tables of kernels, streams, and what they do when they end. A use's waits are
// counted, and those without which the order of things would be another (the rest repeat what others say) are
// left out one by one: the thread sanitizer reports a race every time, and none where they are all made. Not
// among them is how a device waits before memory goes back to its pool (order_program).
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <sstream>
#include <vector>

#include "correctness/emulated_backend/race_run.hpp"

namespace zp {
namespace {

struct Program {
  const char* name;
  const char* path;
  std::vector<const char*> uses;
};

const std::vector<Program>& programs() {
  static const std::vector<Program> list{
      {"staged",
       ZP_STAGED_ORDER_PROGRAM,
       {
           "buffers_are_read_in_vain_after_a_failure",
           "buffers_end_after_a_failure",
           "buffers_end_before_a_collective",
           "collective_fails_while_the_host_waits",
           "collectives_by_ring",
           "collectives_of_aware_messages",
           "collectives_of_aware_messages_by_ring",
           "gather_of_what_kernels_wrote",
           "gather_over_what_kernels_read",
           "host_holds_a_sum",
           "host_holds_what_is_refused",
           "host_writes_what_was_gathered",
           "link_ends_before_its_copies",
           "memory_is_used_again_by_another_stream",
           "memory_is_used_at_once",
           "memory_of_a_collective_is_used_again",
           "memory_of_an_ordered_table_ends_before_its_work",
           "slices_of_a_sum_in_fixed_point",
           "slots_are_used_again",
           "stream_ends_before_its_work",
           "sum_in_fixed_point",
           "sum_of_integers",
           "sum_of_what_kernels_wrote",
           "sum_that_comes_late",
           "sums_of_buckets",
           "table_ends_before_its_work",
           "table_is_made_of_memory_given_back",
           "transport_ends_before_a_collective",
           "transport_ends_before_its_additions",
           "transport_is_made_of_memory_given_back",
       }},
#ifdef ZP_CARRIED_ORDER_PROGRAM
      {"carried",
       ZP_CARRIED_ORDER_PROGRAM,
       {
           "a_gathered_buffer_ends",
           "a_transport_ends_whose_pieces_are_added",
           "a_transport_is_made_of_memory_given_back",
           "collectives_by_ring",
           "collectives_of_the_library",
           "gather_of_a_slice_that_kernels_wrote",
           "gather_over_what_kernels_read",
           "kernels_read_a_sum",
           "kernels_read_what_sums_of_integers_became",
           "kernels_read_what_was_gathered",
           "kernels_write_a_slice_that_a_gather_read",
           "kernels_write_an_image_that_was_summed",
           "kernels_write_where_a_gather_wrote",
           "sum_of_integers_that_kernels_wrote",
           "sum_of_what_kernels_wrote",
           "sum_over_an_image_that_kernels_wrote",
           "the_host_reads_what_was_gathered",
       }},
#endif
  };
  return list;
}

struct SweptUse {
  const Program* program;
  const char* name;
  friend std::ostream& operator<<(std::ostream& out, const SweptUse& use) { return out << use.name; }
};

std::vector<SweptUse> all_uses() {
  std::vector<SweptUse> all;
  for (const Program& program : programs()) {
    for (const char* use : program.uses) all.push_back({&program, use});
  }
  return all;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all{{.schedule = "free", .memory_mb = 3},
                                        {.schedule = "serial", .memory_mb = 3}};
  return all;
}

class Waits : public testing::TestWithParam<SweptUse> {
 protected:
  static Ended run(const std::string& how, const Setting& setting) {
    return run_ordered(GetParam().program->path, GetParam().name + how, setting);
  }
};

INSTANTIATE_TEST_SUITE_P(All, Waits, testing::ValuesIn(all_uses()), [](const auto& info) {
  return info.param.program->name + ("_" + std::string(info.param.name));
});

TEST_P(Waits, AreEnough) {
  for (const Setting& setting : settings()) EXPECT_EQ(run("", setting).code, 0) << setting.schedule;
}

TEST(EveryWait, IsSwept) {
  for (const Program& program : programs()) {
    std::string names;
    for (const char* name : program.uses) names += std::string(name) + "\n";
    EXPECT_EQ(run_ordered(program.path, "", {.schedule = "free"}).text, names);
  }
}

#if ZP_THREAD_SANITIZED
struct Counted {
  std::vector<int> needed;
  std::string others;  // their numbers
};

Counted counted_in(const std::string& text) {
  Counted waits;
  std::istringstream words(text);
  int number = 0;
  while (words >> number) waits.needed.push_back(number);
  words.clear();
  std::string of;
  int count = 0;
  words >> of >> count;
  EXPECT_EQ(of, "of") << text;
  for (int wait = 1; wait <= count; ++wait) {
    if (std::ranges::find(waits.needed, wait) == waits.needed.end())
      waits.others += " " + std::to_string(wait);
  }
  return waits;
}

TEST_P(Waits, AreNeeded) {
  const std::string first = run(" needed", settings().front()).text;
  const Counted waits = counted_in(first);
  ASSERT_FALSE(waits.needed.empty()) << first;
  for (const Setting& setting : settings()) {
    EXPECT_EQ(run(" needed", setting).text, first) << "a run asks for the same waits";
    EXPECT_EQ(run(" without" + waits.others, setting).code, 0) << "the rest is enough";
  }
  for (const int wait : waits.needed) {
    const std::string without = " without" + waits.others + " " + std::to_string(wait);
    for (const Setting& setting : settings())
      EXPECT_EQ(run(without, setting).code, kRaceExit) << "wait " << wait << ", " << setting.schedule;
  }
}
#endif

}  // namespace
}  // namespace zp
