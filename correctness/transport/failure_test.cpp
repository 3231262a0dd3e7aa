// How a run ends when something goes wrong: on every rank, with one code, promptly, naming what was waited
// for, and without leaving anything behind that a later run would meet.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "correctness/transport/rig.hpp"

namespace zp {
namespace {

using namespace std::chrono_literals;

constexpr double kLong = 60.0;          // nobody waits that long
constexpr int64_t kLongSlice = 150000;  // more than two pieces
constexpr double kShort = 0.3;          // somebody does
constexpr double kPrompt = 10.0;        // far below kLong: the machine may be busy

struct Ending {
  Exit code = Exit::pass;
  std::string text;
};

// How each rank of this process ended, and how long the whole took.
struct Endings {
  std::map<int, Ending> by_rank;
  Ending run;
  double time_s = 0.0;
};

class Failures : public testing::TestWithParam<RowAndWorld> {
 protected:
  int world() const { return GetParam().world; }

  Endings run(double control_timeout_s, const std::function<void(Endpoint&)>& body) {
    Endings endings;
    std::mutex mutex;
    const auto began = std::chrono::steady_clock::now();
    const auto ending_of = [](const auto& act) {
      try {
        act();
      } catch (const Error& error) {
        return Ending{error.code(), error.what()};
      }
      return Ending{};
    };
    endings.run = ending_of([&] {
      GetParam().row->run(world(), control_timeout_s, [&](Endpoint& endpoint) {
        const int rank = endpoint.link->rank();
        try {
          body(endpoint);
        } catch (const Error& error) {
          const std::lock_guard lock(mutex);
          endings.by_rank[rank] = {error.code(), error.what()};
          throw;
        }
      });
    });
    endings.time_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return endings;
  }

  CollectiveOptions direct(double timeout_s) const {
    return options_of(Algorithm::direct, world(), timeout_s);
  }
};

const Label kBlockLabel{Purpose::reduce_grads, 3, "block.3"};

Handle start_sum(TestRig& rig, Buffer& whole, const Label& label, int64_t slice) {
  const Cuts cuts = Cuts::equal(rig.transport->world(), {slice});
  whole = rig.device->acquire(Category::grads, Type::f32, cuts.whole());
  plain::fill(whole.all(), rig.transport->place());
  return rig.transport->reduce_scatter(
      {whole.all(), whole.part(cuts.of(rig.transport->place())), cuts, 1.0F, label});
}

Handle start_gather(TestRig& rig, Buffer& whole, int64_t slice) {
  const Cuts cuts = Cuts::equal(rig.transport->world(), {slice});
  const View mine = (whole = rig.device->acquire(Category::params, Type::f32, cuts.whole()))
                        .part(cuts.of(rig.transport->place()));
  plain::fill(mine, rig.transport->place());
  return rig.transport->all_gather({mine, whole.all(), cuts, {Purpose::gather_params, 3, "block.3"}});
}

void expect_named(const Ending& ending, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(ending.text.find(word), std::string::npos) << "no '" << word << "' in: " << ending.text;
  }
}

TEST_P(Failures, AMissingRankIsATimeoutOnEveryRankThatNamesTheCollective) {
  const int missing = world() - 1;
  const Endings endings = run(kLong, [&](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kShort));
    Buffer whole;
    endpoint.control->barrier();
    if (endpoint.link->rank() == missing) {
      endpoint.control->barrier();
    } else {
      start_sum(rig, whole, kBlockLabel, 70000).wait();
    }
  });
  EXPECT_FALSE(endings.by_rank.empty());
  for (const auto& [rank, ending] : endings.by_rank) {
    EXPECT_EQ(ending.code, Exit::timeout);
    expect_named(ending, {"waited 0.3 s", "rank " + std::to_string(missing), "reduce-scatter number 0",
                          "reduce grads", "block.3", "tensor 3"});
  }
  EXPECT_EQ(endings.run.code, Exit::timeout);
  EXPECT_LT(endings.time_s, kPrompt);
}

TEST_P(Failures, SwappedTensorsAreATimeoutAndNeverWrongData) {
  for (const Algorithm algorithm : {Algorithm::direct, default_algorithm(world(), Type::f32)}) {
    const Endings endings = run(kLong, [&](Endpoint& endpoint) {
      TestRig rig(endpoint, options_of(algorithm, world(), kShort));
      Buffer first, second;
      const Label a{Purpose::reduce_grads, 1, "block.1"}, b{Purpose::reduce_grads, 2, "block.2"};
      const bool swapped = endpoint.link->rank() == 0;
      Handle one = start_sum(rig, first, swapped ? b : a, 100);
      Handle two = start_sum(rig, second, swapped ? a : b, 100);
      one.wait();
      two.wait();
    });
    EXPECT_EQ(endings.run.code, Exit::timeout);
    expect_named(endings.run, {"reduce-scatter number 0"});
  }
}

TEST_P(Failures, AnErrorOfOneRankReachesAllThatWait) {
  for (const bool on_control_line : {false, true}) {
    const Endings endings = run(kLong, [&](Endpoint& endpoint) {
      TestRig rig(endpoint, direct(kLong));
      Buffer whole;
      if (endpoint.link->rank() == 1) {
        std::this_thread::sleep_for(50ms);
        fail(Exit::bits, "boom");
      }
      if (on_control_line) {
        endpoint.control->barrier();
      } else {
        start_gather(rig, whole, kLongSlice).wait();
      }
    });
    for (const auto& [rank, ending] : endings.by_rank) {
      EXPECT_EQ(ending.code, Exit::bits);
      expect_named(ending,
                   rank == 1 ? std::vector<std::string>{"boom"} : std::vector<std::string>{"rank 1: boom"});
    }
    EXPECT_EQ(endings.run.code, Exit::bits);
    EXPECT_LT(endings.time_s, kPrompt);
  }
}

TEST_P(Failures, AnErrorThatUnwindsPastBuffersInFlightIsPromptAndLeavesNothingBehind) {
  enum class Others { come_late, wait_elsewhere, compute };
  for (const Others others : {Others::come_late, Others::wait_elsewhere, Others::compute}) {
    const Endings endings = run(kLong, [&](Endpoint& endpoint) {
      TestRig rig(endpoint, direct(kLong));
      Buffer gathered, summed;
      if (endpoint.link->rank() == 0) {
        start_gather(rig, gathered, kLongSlice);
        start_sum(rig, summed, kBlockLabel, kLongSlice);
        fail(Exit::work, "boom");
      }
      if (others == Others::wait_elsewhere) endpoint.control->barrier();
      if (others == Others::come_late) std::this_thread::sleep_for(100ms);
      Handle handle = start_gather(rig, gathered, kLongSlice);
      if (others == Others::compute) std::this_thread::sleep_for(300ms);
      handle.wait();
      start_sum(rig, summed, kBlockLabel, kLongSlice).wait();
    });
    EXPECT_EQ(endings.run.code, Exit::work);
    EXPECT_LT(endings.time_s, kPrompt);
  }

  // Sequence, tensor and lengths are those of the failed run; the data must be this run's.
  const Endings after = run(kLong, [&](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kLong));
    Buffer whole;
    start_gather(rig, whole, kLongSlice).wait();
    const int64_t peer = (endpoint.link->rank() + 1) % world();
    const std::vector<uint64_t> bits = plain::bits_of(whole.all());
    for (int64_t i = 0; i < kLongSlice; ++i) {
      ASSERT_EQ(bits[static_cast<size_t>(peer * kLongSlice + i)],
                plain::own_bits(Type::f32, static_cast<int>(peer), i));
    }
  });
  EXPECT_EQ(after.run.code, Exit::pass) << after.run.text;
}

TEST_P(Failures, AFailedAdditionFailsTheRun) {
  class Broken final : public kernels::Table {
    void run(const kernels::Call&) override { fail(Exit::cuda, "the adder burnt"); }
  };
  const Endings endings = run(kLong, [&](Endpoint& endpoint) {
    const auto device = make_host_device(Fill::nan);
    Broken broken;
    plain::FoldOnly whole_kernels;
    kernels::Table& table = endpoint.link->rank() == 0 ? static_cast<kernels::Table&>(broken) : whole_kernels;
    const auto transport = make_collectives(*endpoint.link, *device, table, direct(kLong));
    Buffer whole = device->acquire(Category::grads, Type::f32, {world() * 5});
    const Cuts cuts = Cuts::equal(world(), {5});
    transport->all_reduce({whole.all(), cuts, 1.0F, kBlockLabel}).wait();
    endpoint.control->barrier();
  });
  EXPECT_EQ(endings.run.code, Exit::cuda);
  expect_named(endings.run, {"the adder burnt"});
  EXPECT_LT(endings.time_s, kPrompt);
}

TEST_P(Failures, LastWordsAreHeardAfterAFailure) {
  std::mutex mutex;
  std::map<int, std::vector<std::optional<std::string>>> heard;
  const std::string padding(20000, 'x');  // longer than what leaves at once
  run(kLong, [&](Endpoint& endpoint) {
    const int rank = endpoint.link->rank();
    if (rank == 1) endpoint.control->announce_failure(Exit::bytes, "one byte too many");
    EXPECT_THROW(endpoint.control->barrier(), Error);
    const auto words = endpoint.control->last_words("rank " + std::to_string(rank) + padding, kLong);
    const std::lock_guard lock(mutex);
    heard[rank] = words;
  });
  EXPECT_FALSE(heard.empty());
  for (const auto& [rank, words] : heard) {
    ASSERT_EQ(static_cast<int>(words.size()), world());
    for (int r = 0; r < world(); ++r) {
      EXPECT_EQ(words[static_cast<size_t>(r)], "rank " + std::to_string(r) + padding) << "at rank " << rank;
    }
  }
}

TEST_P(Failures, ARankThatIsSilentAfterAFailureLeavesNoLastWords) {
  const int silent = world() - 1;
  std::mutex mutex;
  std::map<int, std::vector<std::optional<std::string>>> heard;
  run(kLong, [&](Endpoint& endpoint) {
    const int rank = endpoint.link->rank();
    if (rank == silent) return;
    endpoint.control->announce_failure(Exit::bytes, "one byte too many");
    const auto words = endpoint.control->last_words("here", kShort);
    const std::lock_guard lock(mutex);
    heard[rank] = words;
  });
  for (const auto& [rank, words] : heard) {
    EXPECT_EQ(words[static_cast<size_t>(silent)], std::nullopt);
    EXPECT_EQ(words[static_cast<size_t>(rank)], "here");
  }
}

TEST_P(Failures, RankZeroAtWorkRestartsTheDeadlineOfThoseWhoWait) {
  for (const bool says_so : {true, false}) {
    const Endings endings = run(1.0, [&](Endpoint& endpoint) {
      for (int i = 0; i < 16 && endpoint.link->rank() == 0; ++i) {
        std::this_thread::sleep_for(100ms);
        if (says_so) endpoint.control->alive();
      }
      endpoint.control->barrier();
    });
    EXPECT_EQ(endings.run.code, says_so ? Exit::pass : Exit::timeout) << endings.run.text;
    if (!says_so) expect_named(endings.run, {"control line", "rank 0"});
  }
}

TEST_P(Failures, AMessageOfAnotherLengthIsRefused) {
  const Endings endings = run(kLong, [&](Endpoint& endpoint) {
    std::array<std::byte, 12> bytes{};
    const int rank = endpoint.link->rank();
    if (rank > 1) return;
    const auto request = rank == 0 ? endpoint.link->send(1, {7, 1}, std::span(bytes).first(8))
                                   : endpoint.link->receive(0, {7, 1}, bytes);
    while (!request->done()) std::this_thread::sleep_for(1ms);
    if (rank == 0) endpoint.control->barrier();
  });
  EXPECT_EQ(endings.run.code, Exit::transport);
  expect_named(endings.run, {"8 bytes", "12 were expected"});
}

TEST_P(Failures, MessagesOfOneTagArriveInTheOrderSent) {
  const Endings endings = run(kLong, [&](Endpoint& endpoint) {
    std::array<std::byte, 4> bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    const int rank = endpoint.link->rank();
    if (rank > 1) return;
    if (rank == 1) bytes.fill(std::byte{0});
    std::vector<std::unique_ptr<Request>> requests;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto one = std::span(bytes).subspan(i, 1);
      requests.push_back(rank == 0 ? endpoint.link->send(1, {7, 1}, one)
                                   : endpoint.link->receive(0, {7, 1}, one));
    }
    for (auto request = requests.rbegin(); request != requests.rend(); ++request) {
      while (!(*request)->done()) std::this_thread::sleep_for(1ms);
    }
    for (size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], static_cast<std::byte>(i + 1));
  });
  EXPECT_EQ(endings.run.code, Exit::pass) << endings.run.text;
}

TEST_P(Failures, ABufferInFlightKnowsThatItsTransportHasEnded) {
  const Endings endings = run(kLong, [&](Endpoint& endpoint) {
    const auto device = make_host_device(Fill::nan);
    plain::FoldOnly kernels;
    auto transport = make_collectives(*endpoint.link, *device, kernels, direct(kLong));
    if (endpoint.link->rank() != 0) return;
    Buffer whole = device->acquire(Category::params, Type::f32, {world() * kLongSlice});
    const Cuts cuts = Cuts::equal(world(), {kLongSlice});
    Handle handle = transport->all_gather({whole.part(cuts.of(0)), whole.all(), cuts, kBlockLabel});
    transport.reset();
    EXPECT_THROW(whole.all().read<float>(), Error);
    EXPECT_THROW(handle.wait(), Error);
  });
  EXPECT_EQ(endings.run.code, Exit::pass) << endings.run.text;
}

TEST_P(Failures, HalvingWithoutAPowerOfTwoIsNotAvailable) {
  const Endings endings = run(kLong, [&](Endpoint& endpoint) {
    TestRig rig(endpoint, options_of(Algorithm::halving, world(), kLong));
  });
  const bool power_of_two = std::has_single_bit(static_cast<unsigned>(world()));
  EXPECT_EQ(endings.run.code, power_of_two ? Exit::pass : Exit::unavailable);
  if (!power_of_two) expect_named(endings.run, {"halving", "not " + std::to_string(world()), "direct"});
}

INSTANTIATE_TEST_SUITE_P(All, Failures, testing::ValuesIn(rows_and_worlds(2, 4)),
                         [](const auto& info) { return name_of(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Failures);

class Jobs : public testing::TestWithParam<RowAndWorld> {};

TEST_P(Jobs, OfAnotherSizeThanAskedForAreAUsageError) {
  try {
    GetParam().row->run(GetParam().world + 1, kLong, [](Endpoint&) {});
    FAIL() << "ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::usage);
    expect_named({error.code(), error.what()}, {"mpirun -n " + std::to_string(GetParam().world + 1)});
  }
}

std::vector<RowAndWorld> jobs() {
  std::vector<RowAndWorld> all = rows_and_worlds();
  std::erase_if(all, [](const RowAndWorld& on) { return on.row->name != "mpi"; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Jobs, testing::ValuesIn(jobs()),
                         [](const auto& info) { return name_of(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Jobs);

}  // namespace
}  // namespace zp
