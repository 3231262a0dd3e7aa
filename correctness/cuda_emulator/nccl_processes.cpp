// The emulated NCCL with ranks that are MPI processes: what nccl_ranks.hpp does, on every rank at once.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>

#include "correctness/cuda_emulator/nccl_ranks.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::lab {
namespace {

class EverySchedule : public testing::TestWithParam<emulated::Schedule> {
 protected:
  EverySchedule() { emulated::configure({.schedule = GetParam(), .devices = 8}); }

  // Whether every rank got what it should.
  static bool on_every_rank(bool (*right)(const Rank&)) {
    int world = 0;
    int rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ncclUniqueId id{};
    if (rank == 0) must(ncclGetUniqueId(&id));
    MPI_Bcast(&id, static_cast<int>(sizeof id), MPI_BYTE, 0, MPI_COMM_WORLD);
    int mine = 0;
    {
      const Rank on(world, rank, id);
      mine = right(on) ? 1 : 0;
    }
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all == 1;
  }
};

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule,
                         testing::Values(emulated::Schedule::free_running, emulated::Schedule::serial));

TEST_P(EverySchedule, GathersEverySlice) { EXPECT_TRUE(on_every_rank(gathers)); }
TEST_P(EverySchedule, GathersInPlace) { EXPECT_TRUE(on_every_rank(gathers_in_place)); }
TEST_P(EverySchedule, ScattersSums) { EXPECT_TRUE(on_every_rank(scatters_sums)); }
TEST_P(EverySchedule, AddsUpOnAllRanks) { EXPECT_TRUE(on_every_rank(adds_up)); }
TEST_P(EverySchedule, TakesExtremesAndMeans) { EXPECT_TRUE(on_every_rank(takes_extremes_and_means)); }
TEST_P(EverySchedule, ReducesAndBroadcasts) { EXPECT_TRUE(on_every_rank(reduces_and_broadcasts)); }
TEST_P(EverySchedule, SendsRoundARing) { EXPECT_TRUE(on_every_rank(sends_round)); }
TEST_P(EverySchedule, KeepsOrderOverStreams) { EXPECT_TRUE(on_every_rank(uses_two_streams)); }
TEST_P(EverySchedule, AddsBf16InRankOrder) { EXPECT_TRUE(on_every_rank(adds_bf16)); }

// What was enqueued runs while this process waits for others in MPI, not in CUDA.
TEST_P(EverySchedule, RunsStreamsWhileTheirRankWaitsInMpi) {
  EXPECT_TRUE(on_every_rank([](const Rank& mine) {
    const TestStream stream;
    const OnDevice<float> memory(100);
    must(cudaMemsetAsync(memory, 0, 400, stream));
    must(ncclAllReduce(memory, memory, 100, ncclFloat32, ncclSum, mine.comm, stream));
    // Rank 0 leaves the barrier only when the others have waited for their streams, which need rank 0's.
    if (mine.rank == 0) MPI_Barrier(MPI_COMM_WORLD);
    stream.wait();
    if (mine.rank != 0) MPI_Barrier(MPI_COMM_WORLD);
    return true;
  }));
}

}  // namespace
}  // namespace zp::lab

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  const int mine = RUN_ALL_TESTS();
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return all;
}
