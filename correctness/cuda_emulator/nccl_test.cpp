// The emulated NCCL with ranks that are threads, each with a device and a stream: every call gives every rank
// what it should, at every number of ranks, in place and not, at lengths below and beyond a ring; wrong uses
// are refused.
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "correctness/cuda_emulator/checked.hpp"
#include "correctness/cuda_emulator/lab.hpp"
#include "correctness/cuda_emulator/nccl_ranks.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::lab {
namespace {

using emulated::Schedule;
using emulated::Settings;

class EveryWorld : public testing::TestWithParam<std::tuple<int, Schedule>> {
 protected:
  EveryWorld() { emulated::configure(Settings{.schedule = std::get<1>(GetParam()), .devices = 8}); }
  ~EveryWorld() override { emulated::configure(Settings{}); }
  int world() const { return std::get<0>(GetParam()); }

  // On a thread for each rank; the ranks for which `check` found something wrong.
  std::vector<int> wrong_ranks(const std::function<bool(const Rank&)>& right) const {
    ncclUniqueId id;
    must(ncclGetUniqueId(&id));
    std::vector<int> wrong(static_cast<std::size_t>(world()), 0);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world(); ++rank) {
      threads.emplace_back([&, rank] {
        const Rank mine(world(), rank, id);
        wrong[static_cast<std::size_t>(rank)] = right(mine) ? 0 : 1;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return wrong;
  }
  std::vector<int> none() const { return std::vector<int>(static_cast<std::size_t>(world()), 0); }
};

INSTANTIATE_TEST_SUITE_P(All, EveryWorld,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7),
                                          testing::Values(Schedule::free_running, Schedule::serial)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == Schedule::serial ? "_serial" : "_free");
                         });

TEST_P(EveryWorld, GathersEverySlice) { EXPECT_EQ(wrong_ranks(gathers), none()); }
TEST_P(EveryWorld, GathersInPlace) { EXPECT_EQ(wrong_ranks(gathers_in_place), none()); }
TEST_P(EveryWorld, ScattersSums) { EXPECT_EQ(wrong_ranks(scatters_sums), none()); }
TEST_P(EveryWorld, AddsUpOnAllRanks) { EXPECT_EQ(wrong_ranks(adds_up), none()); }
TEST_P(EveryWorld, TakesExtremesAndMeans) { EXPECT_EQ(wrong_ranks(takes_extremes_and_means), none()); }
TEST_P(EveryWorld, ReducesToOneRankAndBroadcastsFromIt) {
  EXPECT_EQ(wrong_ranks(reduces_and_broadcasts), none());
}
TEST_P(EveryWorld, SendsRoundARingInAGroup) { EXPECT_EQ(wrong_ranks(sends_round), none()); }
TEST_P(EveryWorld, KeepsTheOrderOfCallsOverStreams) { EXPECT_EQ(wrong_ranks(uses_two_streams), none()); }
TEST_P(EveryWorld, AddsBf16InRankOrder) { EXPECT_EQ(wrong_ranks(adds_bf16), none()); }

TEST(Nccl, RefusesWhatItsRulesForbid) {
  emulated::configure(Settings{.devices = 2});
  ncclComm_t comms[2];
  const int same[2] = {1, 1};
  EXPECT_EQ(ncclCommInitAll(comms, 2, same), ncclInvalidUsage) << "two ranks on one device";
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("both on device 1"), std::string::npos);
  must(ncclCommInitAll(comms, 2, nullptr));
  {
    const TestStream stream;
    const OnDevice<float> memory(100);
    std::vector<float> pageable(100);
    const auto gather = [&](const float* from, float* to, std::size_t count) {
      return ncclAllGather(from, to, count, ncclFloat32, comms[0], stream);
    };
    EXPECT_EQ(gather(memory, memory, 51), ncclInvalidArgument) << "102 numbers do not fit";
    EXPECT_EQ(gather(memory, pageable.data(), 50), ncclInvalidArgument) << "pageable memory";
    EXPECT_EQ(ncclAllGather(memory, memory, 50, ncclFloat32, comms[1], stream), ncclInvalidArgument)
        << "another device's stream";
    EXPECT_EQ(ncclAllReduce(memory, memory, 50, ncclInt32, ncclAvg, comms[0], stream), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(memory, 50, ncclFloat32, 2, comms[0], stream), ncclInvalidArgument) << "no such rank";
    EXPECT_EQ(ncclSend(memory, 50, ncclFloat32, -1, comms[0], stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    void* pooled = nullptr;
    must(cudaMallocAsync(&pooled, 400, stream));
    const auto send = [&] { return ncclSend(pooled, 100, ncclFloat32, 0, comms[0], stream); };
    EXPECT_EQ(send(), ncclInvalidArgument) << "the other device does not reach a pool";
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("memory of a pool"), std::string::npos);
    must(cudaFreeAsync(pooled, stream));
    stream.wait();
  }
  must(ncclCommDestroy(comms[0]));
  EXPECT_EQ(ncclCommDestroy(comms[0]), ncclInvalidArgument) << "destroyed already";
  must(ncclCommDestroy(comms[1]));
  ncclUniqueId made_up{};
  EXPECT_EQ(ncclCommInitRank(comms, 1, made_up, 0), ncclInvalidArgument);
  emulated::configure(Settings{});
}

// It joins, and puts calls on their stream, while its state is asked for.
TEST(Nccl, ACommunicatorThatDoesNotBlockIsBusyUntilItIsAsked) {
  emulated::configure(Settings{.devices = 1});
  ncclUniqueId id;
  must(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  const auto state = [&] {
    ncclResult_t now = ncclInternalError;
    must(ncclCommGetAsyncError(comm, &now));
    return now;
  };
  {
    const TestStream stream;
    const OnDevice<float> from(100), to(100);
    const OnHost<float> host(100);
    must(fill(from, 3, 100, stream));
    const auto sum = [&] { return ncclAllReduce(from, to, 100, ncclFloat32, ncclSum, comm, stream); };
    EXPECT_EQ(sum(), ncclInvalidUsage) << "nobody asked whether all had joined";
    EXPECT_EQ(state(), ncclSuccess);
    EXPECT_EQ(sum(), ncclInProgress);
    EXPECT_EQ(sum(), ncclInvalidUsage) << "the call before is not on the stream";
    EXPECT_EQ(state(), ncclSuccess);
    must(cudaMemcpyAsync(host, to, 100 * sizeof(float), cudaMemcpyDeviceToHost, stream));
    stream.wait();
    EXPECT_EQ(host[99], 3.0F);
  }
  must(ncclCommDestroy(comm));
  emulated::configure(Settings{});
}

// At an operation of one rank, by request: the communicator says so, or nothing.
TEST(Nccl, FailsOnRequestWithOrWithoutAWord) {
  for (const auto& [fault, said] : {std::pair{emulated::NcclFault::error, ncclRemoteError},
                                    std::pair{emulated::NcclFault::stall, ncclSuccess}}) {
    emulated::configure(Settings{.devices = 2, .nccl_fault = fault, .nccl_fault_rank = 1});
    ncclComm_t comms[2];
    must(ncclCommInitAll(comms, 2, nullptr));
    {
      const TestStream stream;
      const OnDevice<float> memory(100);
      must(ncclSend(memory, 100, ncclFloat32, 1, comms[0], stream));
      must(cudaSetDevice(1));
      const TestStream other;
      const OnDevice<float> there(100);
      must(ncclRecv(there, 100, ncclFloat32, 0, comms[1], other));
      ncclResult_t state = ncclInternalError;
      must(ncclCommGetAsyncError(comms[1], &state));
      EXPECT_EQ(state, said);
      EXPECT_EQ(cudaStreamQuery(other), cudaErrorNotReady);
      must(ncclCommAbort(comms[1]));
      other.wait();
      must(ncclCommAbort(comms[0]));
      must(cudaSetDevice(0));
      stream.wait();
    }
    emulated::configure(Settings{});
  }
}

TEST(Nccl, AbortEndsWhatWaitsForOthers) {
  emulated::configure(Settings{.devices = 2});
  ncclComm_t comms[2];
  must(ncclCommInitAll(comms, 2, nullptr));
  {
    const TestStream stream;
    const OnDevice<float> memory(100);
    must(ncclAllReduce(memory, memory, 100, ncclFloat32, ncclSum, comms[0], stream));
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady) << "rank 1 has not called it";
    must(ncclCommAbort(comms[0]));
    stream.wait();
  }
  must(ncclCommAbort(comms[1]));
  emulated::configure(Settings{});
}

}  // namespace
}  // namespace zp::lab
