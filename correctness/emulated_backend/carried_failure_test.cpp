// How a run by NCCL ends when something goes wrong: on every rank, with one code, promptly, naming the
// collective, and without results that could be taken for such.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "correctness/emulated_backend/carried_rig.hpp"
#include "harness/transport/nccl_functions.hpp"

namespace zp {
namespace {

using namespace std::chrono_literals;
using emulated::NcclFault;
using emulated::Settings;

constexpr double kLong = 60.0;    // nobody waits that long
constexpr double kShort = 0.5;    // somebody does
constexpr double kPrompt = 20.0;  // far below kLong: the machine may be busy
constexpr int kWorld = 3;
constexpr int64_t kSlice = 1000;
const Label kLabel{Purpose::gather_params, 3, "block.3"};

struct Ending {
  Exit code = Exit::pass;
  std::string text;
};

struct Endings {
  std::map<int, Ending> by_rank;
  double time_s = 0.0;
};

Endings run(const Settings& settings, const std::function<void(Endpoint&)>& body) {
  emulated::configure(settings);
  Endings endings;
  std::mutex mutex;
  const auto began = std::chrono::steady_clock::now();
  try {
    transport_named("nccl").run(kWorld, kLong, [&](Endpoint& endpoint) {
      Ending ending;
      try {
        body(endpoint);
      } catch (const Error& error) {
        ending = {error.code(), error.what()};
      }
      {
        const std::lock_guard lock(mutex);
        endings.by_rank[endpoint.link->rank()] = ending;
      }
      if (ending.code != Exit::pass) fail(ending.code, ending.text);
    });
  } catch (const Error&) {
    // Kept by rank.
  }
  endings.time_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  emulated::configure({.guard = 0});
  EXPECT_EQ(std::ssize(endings.by_rank), kWorld) << "a rank never began";
  return endings;
}

Settings with_fault(NcclFault fault, int rank, int at) {
  return {.nccl_fault = fault, .nccl_fault_rank = rank, .nccl_fault_at = at, .guard = 0};
}

// The rig's whole and one gather of it.
struct Gathering {
  explicit Gathering(TestRig& of) : rig(of) { plain::fill(mine, rig.transport->place()); }
  Handle start(int64_t slice = kSlice) {
    const Cuts some = Cuts::equal(kWorld, {slice});
    const View part = whole.part({{0}, some.whole()});
    return rig.transport->all_gather(
        {.mine = part.part(some.of(rig.transport->place())), .whole = part, .cuts = some, .label = kLabel});
  }
  void expect_gathered() const {
    const std::vector<uint64_t> bits = plain::bits_of(whole.all());
    for (int64_t i = 0; i < cuts.whole().n; ++i) {
      ASSERT_EQ(bits[static_cast<size_t>(i)],
                plain::own_bits(Type::f32, static_cast<int>(i / kSlice), i % kSlice))
          << i;
    }
  }

  TestRig& rig;
  Cuts cuts = Cuts::equal(kWorld, {kSlice});
  Buffer whole = rig.device->acquire(Category::params, Type::f32, cuts.whole());
  View mine = whole.part(cuts.of(rig.transport->place()));
};

CollectiveOptions direct(double timeout_s) { return options_of(Algorithm::direct, kWorld, timeout_s); }

void expect_named(const Ending& ending, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(ending.text.find(word), std::string::npos) << "no '" << word << "' in: " << ending.text;
  }
}

TEST(CarriedFailures, AMissingRankIsATimeoutOfTheOthersThatNamesCollectiveSizesAndRanks) {
  const std::string native =
      "all-gather number 0 (gather params) of block.3 [tensor 3], step 1 of 1: 12000 bytes of all 3 ranks; "
      "for "
      "whom it waits the library does not say";
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::native}) {
    const Endings endings = run({.guard = 0}, [&](Endpoint& endpoint) {
      TestRig rig(endpoint, options_of(algorithm, kWorld, kShort));
      Gathering gathering(rig);
      endpoint.control->barrier();
      if (endpoint.link->rank() == kWorld - 1) return endpoint.control->barrier();
      gathering.start().wait();
    });
    for (const auto& [rank, ending] : endings.by_rank) {
      EXPECT_EQ(ending.code, Exit::timeout) << rank;
      if (algorithm == Algorithm::native) {
        expect_named(ending, {"waited 0.5 s in native " + native});
      } else {
        expect_named(ending,
                     {"waited 0.5 s in all-gather number 0 (gather params) of block.3 [tensor 3], step "
                      "1 of 1: 4000 bytes to rank ",
                      "4000 bytes from rank 2"});
      }
    }
    EXPECT_LT(endings.time_s, kPrompt);
  }
}

// Of a ring's steps, the one that does not end.
TEST(CarriedFailures, ATimeoutNamesTheStepWithItsRanks) {
  const Endings endings = run(with_fault(NcclFault::stall, 1, 1), [](Endpoint& endpoint) {
    TestRig rig(endpoint, options_of(Algorithm::ring, kWorld, kShort));
    Gathering gathering(rig);
    gathering.start().wait();
  });
  for (const auto& [rank, ending] : endings.by_rank) {
    EXPECT_EQ(ending.code, Exit::timeout) << rank;
    expect_named(ending, {", step 2 of 2: 4000 bytes "});
    if (!ending.text.starts_with("rank 1 waited")) continue;
    expect_named(ending, {"4000 bytes to rank 2", "4000 bytes from rank 0"});
  }
}

TEST(CarriedFailures, AStreamThatStallsIsATimeoutEverywhere) {
  const Endings endings = run(with_fault(NcclFault::stall, 1, 2), [](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kShort));
    Gathering gathering(rig);
    gathering.start();
    gathering.start();
    gathering.expect_gathered();
    gathering.start().wait();
  });
  for (const auto& [rank, ending] : endings.by_rank) {
    EXPECT_EQ(ending.code, Exit::timeout) << rank;
    expect_named(ending, {"all-gather number 2"});
  }
  EXPECT_LT(endings.time_s, kPrompt);
}

TEST(CarriedFailures, AnErrorOfNcclIsOneOfEveryRankInItsOwnWords) {
  const Endings endings = run(with_fault(NcclFault::error, 1, 1), [](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kLong));
    Gathering gathering(rig);
    gathering.start().wait();
    gathering.start().wait();
  });
  for (const auto& [rank, ending] : endings.by_rank) {
    EXPECT_EQ(ending.code, Exit::cuda) << rank;
    expect_named(ending, {"rank 1: NCCL: ", "another process exited", "all-gather number 1", "block.3"});
  }
  EXPECT_LT(endings.time_s, kPrompt);
}

// The host goes on after a collective without waiting for it.
TEST(CarriedFailures, AnErrorThatIsFoundByALaterCallNamesTheCollectiveThatFailed) {
  const Endings endings = run(with_fault(NcclFault::error, 1, 1), [](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kLong));
    Gathering gathering(rig);
    gathering.start().wait();
    gathering.start();
    for (;;) {
      std::this_thread::sleep_for(1ms);
      gathering.start();
      endpoint.control->check();
    }
  });
  for (const auto& [rank, ending] : endings.by_rank) {
    EXPECT_EQ(ending.code, Exit::cuda) << rank;
    expect_named(ending, {"rank 1: NCCL: ", "another process exited", "all-gather number 1 "});
  }
  EXPECT_LT(endings.time_s, kPrompt);
}

TEST(CarriedFailures, CollectivesThatDoNotFitNeverEndInData) {
  const Endings endings = run({.nccl_mismatch = 0, .guard = 0}, [](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kShort));
    Gathering gathering(rig);
    gathering.start(endpoint.link->rank() == 0 ? kSlice - 1 : kSlice).wait();
  });
  for (const auto& [rank, ending] : endings.by_rank) {
    EXPECT_EQ(ending.code, Exit::timeout) << rank;
    expect_named(ending, {"all-gather number 0"});
  }
  EXPECT_EQ(endings.by_rank.size(), static_cast<size_t>(kWorld));
}

TEST(CarriedFailures, AnErrorOfOneRankReachesAllThatWaitForTheDevice) {
  const Endings endings = run({.guard = 0}, [](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kLong));
    Gathering gathering(rig);
    if (endpoint.link->rank() == 1) {
      std::this_thread::sleep_for(50ms);
      fail(Exit::bits, "boom");
    }
    gathering.start().wait();
  });
  for (const auto& [rank, ending] : endings.by_rank) {
    EXPECT_EQ(ending.code, Exit::bits) << rank;
    expect_named(ending, {rank == 1 ? "boom" : "rank 1: boom"});
  }
  EXPECT_LT(endings.time_s, kPrompt);
}

// Buffers end, and with them the memory that NCCL was told to write, while others have not begun.
TEST(CarriedFailures, AnErrorThatUnwindsPastBuffersInFlightIsPromptAndLeavesNothingBehind) {
  const Endings endings = run({.guard = 0}, [](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kLong));
    Gathering gathering(rig);
    if (endpoint.link->rank() == 0) {
      gathering.start();
      fail(Exit::work, "boom");
    }
    std::this_thread::sleep_for(100ms);
    gathering.start().wait();
    gathering.start().wait();
  });
  for (const auto& [rank, ending] : endings.by_rank) EXPECT_EQ(ending.code, Exit::work) << ending.text;
  EXPECT_LT(endings.time_s, kPrompt);
  const Endings after = run({.guard = 0}, [](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kLong));
    Gathering gathering(rig);
    gathering.start();
    gathering.expect_gathered();
  });
  for (const auto& [rank, ending] : after.by_rank) EXPECT_EQ(ending.code, Exit::pass) << ending.text;
}

TEST(CarriedFailures, ABufferInFlightKnowsThatItsTransportHasEnded) {
  const Endings endings = run({.guard = 0}, [](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kShort));
    Gathering gathering(rig);
    if (endpoint.link->rank() == 0) {
      const Handle handle = gathering.start();
      rig.transport.reset();
      EXPECT_THROW(gathering.whole.all().read<float>(), Error);
      EXPECT_THROW(Handle(handle).wait(), Error);
    }
    endpoint.control->barrier();
  });
  for (const auto& [rank, ending] : endings.by_rank) EXPECT_EQ(ending.code, Exit::pass) << ending.text;
}

// Takes so many marks, and then no more.
class Faltering final : public Stream {
 public:
  Faltering(Stream& inner, int marks) : inner_(inner), marks_(marks) {}
  std::shared_ptr<Mark> mark() override {
    if (--marks_ < 0) fail(Exit::cuda, "no mark");
    return inner_.mark();
  }
  void run_after(const Pending& pending) override { inner_.run_after(pending); }
  void copy(const View& from, const View& to) override { inner_.copy(from, to); }
  void to_pinned(std::span<const std::byte> from, std::byte* to) override { inner_.to_pinned(from, to); }
  void from_pinned(const std::byte* from, std::span<std::byte> to) override { inner_.from_pinned(from, to); }

 private:
  Stream& inner_;
  int marks_;
};

// Of a collective's beginning, of its messages, or of its end.
TEST(CarriedFailures, AMarkThatIsNotTakenIsAnErrorOfEveryRankAtOnce) {
  for (const int marks : {0, 1, 2}) {
    const Endings endings = run({.guard = 0}, [&](Endpoint& endpoint) {
      std::optional<Faltering> stream;  // outlives the transport
      TestRig rig(endpoint, direct(kLong));
      CollectiveOptions options = direct(kLong);
      if (endpoint.link->rank() == 1) {
        stream.emplace(*rig.stream, marks);
        options.stream = &*stream;
        rig.transport = make_carried(rig.link, *rig.device, rig.kernels, rig.control, options);
      }
      Gathering gathering(rig);
      gathering.start().wait();
      gathering.start().wait();
    });
    for (const auto& [rank, ending] : endings.by_rank) {
      EXPECT_EQ(ending.code, Exit::cuda) << rank;
      expect_named(ending, {"rank 1: no mark in all-gather number 0 (gather params) of block.3 [tensor 3]"});
    }
    EXPECT_LT(endings.time_s, kPrompt);
  }
}

TEST(CarriedFailures, ATransportEndsAlthoughItsStreamTookNoMarkOfACollective) {
  const Endings endings = run({.guard = 0}, [](Endpoint& endpoint) {
    TestRig rig(endpoint, direct(kShort));
    Faltering stream(*rig.stream, 2);  // of the collective's beginning, and its messages'
    CollectiveOptions options = direct(kShort);
    options.stream = &stream;
    rig.transport = make_carried(rig.link, *rig.device, rig.kernels, rig.control, options);
    Gathering gathering(rig);
    EXPECT_THROW(gathering.start(), Error);
    EXPECT_THROW(gathering.start(), Error) << "the next one does not begin";
    EXPECT_THROW(rig.stream->finish(), Error);
    endpoint.control->barrier();
    rig.transport.reset();
  });
  for (const auto& [rank, ending] : endings.by_rank) EXPECT_EQ(ending.code, Exit::pass) << ending.text;
}

TEST(CarriedFailures, ARankThatNeverJoinsIsATimeout) {
  const Endings endings = run({.guard = 0}, [](Endpoint& endpoint) {
    if (endpoint.link->rank() == 0) {
      ncclUniqueId id;
      ASSERT_EQ(nccl_functions().get_unique_id(&id), ncclSuccess);
      endpoint.control->broadcast({id.internal, sizeof id.internal});
      return endpoint.control->barrier();
    }
    TestRig rig(endpoint, direct(kShort));
  });
  for (const auto& [rank, ending] : endings.by_rank) {
    EXPECT_EQ(ending.code, Exit::timeout) << rank;
    expect_named(ending, {"waited 0.5 s for ncclCommInitRankConfig"});
  }
  EXPECT_LT(endings.time_s, kPrompt);
}

// NCCL is told of no state of its own: a communicator is taken for joined at once.
ncclResult_t all_is_well(ncclComm_t, ncclResult_t* state) { return *state = ncclSuccess; }

TEST(CarriedFailures, ACommunicatorThatIsNotWaitedForIsRefusedByNccl) {
  static const NcclFunctions hasty = [] {
    NcclFunctions changed = nccl_functions();
    changed.get_async_error = all_is_well;
    return changed;
  }();
  const Endings endings = run({.guard = 0}, [](Endpoint& endpoint) {
    const auto device = make_cuda_device(endpoint.link->rank(), Fill::nan);
    const auto stream = device->make_stream();
    const Buffer whole = device->acquire(Category::gathered, Type::f32, {kWorld * kSlice});
    const auto carrier = make_nccl_carrier(hasty, *device, *stream, *endpoint.control, kLong);
    carrier->all_gather(whole.all());
  });
  for (const auto& [rank, ending] : endings.by_rank) {
    EXPECT_EQ(ending.code, Exit::cuda) << rank;
    expect_named(ending, {"ncclAllGather", "busy with another call"});
  }
}

TEST(CarriedFailures, TwoRanksOnOneDeviceAreRefusedByNccl) {
  const Endings endings = run({.guard = 0}, [](Endpoint& endpoint) {
    const auto device = make_cuda_device(endpoint.link->rank() / 2, Fill::nan);
    const auto stream = device->make_stream();
    const auto carrier = make_nccl_carrier(*device, *stream, *endpoint.control, kLong);
  });
  EXPECT_EQ(endings.by_rank.at(0).code, Exit::cuda);
  expect_named(endings.by_rank.at(0), {"both on device 0"});
}

TEST(CarriedFailures, ALibraryTakesSlicesOfOneLengthOnlyAndARefusalHarmsNothing) {
  const Endings endings = run({.guard = 0}, [](Endpoint& endpoint) {
    TestRig rig(endpoint, options_of(Algorithm::native, kWorld, kLong));
    Gathering gathering(rig);
    Cuts uneven = gathering.cuts;
    uneven.at[1] += Elements{1};
    const View mine = gathering.whole.part(uneven.of(rig.transport->place()));
    EXPECT_THROW(rig.transport->all_gather({mine, gathering.whole.all(), uneven, kLabel}), Error);
    gathering.start();
    gathering.expect_gathered();
  });
  for (const auto& [rank, ending] : endings.by_rank) EXPECT_EQ(ending.code, Exit::pass) << ending.text;
}

TEST(CarriedFailures, HalvingWithoutAPowerOfTwoAndPlacesForALibraryAreNotAvailable) {
  for (const Algorithm algorithm : {Algorithm::halving, Algorithm::native}) {
    const Endings endings = run({.guard = 0}, [&](Endpoint& endpoint) {
      CollectiveOptions options = options_of(algorithm, kWorld, kLong);
      options.places.rank_at = {1, 2, 0};
      TestRig rig(endpoint, options);
    });
    for (const auto& [rank, ending] : endings.by_rank)
      EXPECT_EQ(ending.code, Exit::unavailable) << ending.text;
  }
}

}  // namespace
}  // namespace zp
