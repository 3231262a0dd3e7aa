// Each wait that is asked of CUDA is needed, whoever asks: buffers, collectives over staged messages, tables
// of kernels, streams, and what they do when they end. A use's waits are counted, and those without which the
// order of things would be another (the rest repeat what others say) are left out one by one: the thread
// sanitizer reports a race every time, and none where they are all made. Not among them is how a device waits
// before memory goes back to its pool (order_program).
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "correctness/emulated_backend/race_run.hpp"

namespace zp {
namespace {

constexpr const char* kUses[] = {
    "buffers_are_read_in_vain_after_a_failure",
    "buffers_end_after_a_failure",
    "buffers_end_before_a_collective",
    "collective_fails_while_the_host_waits",
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
    "transport_ends_before_a_collective",
    "transport_ends_before_its_additions",
};

std::vector<Setting> settings(int seeds) {
  std::vector<Setting> all;
  for (const char* schedule : {"free", "serial"}) {
    for (int seed = 1; seed <= seeds; ++seed) all.push_back({schedule, seed, 3});
  }
  return all;
}

std::string text_of(const Setting& setting) {
  return setting.schedule + ", seed " + std::to_string(setting.seed);
}

class StagedWaits : public testing::TestWithParam<const char*> {
 protected:
  static Ended run(const std::string& how, const Setting& setting) {
    return run_ordered(ZP_STAGED_ORDER_PROGRAM, GetParam() + how, setting);
  }
};

INSTANTIATE_TEST_SUITE_P(All, StagedWaits, testing::ValuesIn(kUses),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(StagedWaits, AreEnough) {
  for (const Setting& setting : settings(ZP_THREAD_SANITIZED ? 2 : 1))
    EXPECT_EQ(run("", setting).code, 0) << text_of(setting);
}

TEST(EveryStagedWait, IsSwept) {
  std::string names;
  for (const char* name : kUses) names += std::string(name) + "\n";
  EXPECT_EQ(run_ordered(ZP_STAGED_ORDER_PROGRAM, "", {.schedule = "free"}).text, names);
}

#if ZP_THREAD_SANITIZED
struct Waits {
  std::vector<int> needed;
  std::string others;  // their numbers
};

Waits waits_of(const std::string& text) {
  Waits waits;
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

TEST_P(StagedWaits, AreNeeded) {
  const std::string first = run(" needed", settings(1).front()).text;
  const Waits waits = waits_of(first);
  ASSERT_FALSE(waits.needed.empty()) << first;
  for (const Setting& setting : settings(1)) {
    EXPECT_EQ(run(" needed", setting).text, first) << "a run asks for the same waits";
    EXPECT_EQ(run(" without" + waits.others, setting).code, 0) << "the rest is enough";
  }
  for (const int wait : waits.needed) {
    const std::string without = " without" + waits.others + " " + std::to_string(wait);
    for (const Setting& setting : settings(1))
      EXPECT_EQ(run(without, setting).code, kRaceExit) << "wait " << wait << ", " << text_of(setting);
  }
}
#endif

}  // namespace
}  // namespace zp
