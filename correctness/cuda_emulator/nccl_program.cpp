// Uses of NCCL, right and wrong, with two or three ranks that are threads, for tests that must see how a
// process ends. See uses.hpp.
#include <functional>
#include <thread>
#include <vector>

#include "correctness/cuda_emulator/lab.hpp"
#include "correctness/cuda_emulator/nccl_ranks.hpp"
#include "correctness/cuda_emulator/settings.hpp"
#include "correctness/cuda_emulator/uses.hpp"

namespace zp::lab {
namespace {

constexpr std::size_t kLength = 1000;

// `run` on a thread for each rank; 1 where one of them got wrong values.
int on_ranks(int world, const std::function<bool(const Rank&)>& run) {
  emulated::Settings settings = emulated::settings();
  settings.devices = world;
  emulated::configure(settings);
  ncclUniqueId id;
  must(ncclGetUniqueId(&id));
  std::vector<int> wrong(static_cast<std::size_t>(world), 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      const Rank mine(world, rank, id);
      wrong[static_cast<std::size_t>(rank)] = run(mine) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int rank : wrong) {
    if (rank != 0) return 1;
  }
  return 0;
}

int every_call(int) {
  return on_ranks(3, [](const Rank& mine) {
    return gathers(mine) && gathers_in_place(mine) && scatters_sums(mine) && adds_up(mine) &&
           reduces_and_broadcasts(mine) && sends_round(mine) && uses_two_streams(mine);
  });
}

// Rank 1 calls with another length (0), type (1), operation (2), call (3), or one time too few before the
// same (4).
int mismatch(int kind) {
  return on_ranks(2, [kind](const Rank& mine) {
    const TestStream stream;
    const OnDevice<float> memory(2 * kLength);
    const int odd = mine.rank == 1 ? kind : -1;
    const auto all_reduce = [&](std::size_t length, ncclDataType_t type, ncclRedOp_t operation) {
      must(ncclAllReduce(memory, memory, length, type, operation, mine.comm, stream));
    };
    if (odd == 0) all_reduce(kLength - 1, ncclFloat32, ncclSum);
    if (odd == 1) all_reduce(kLength, ncclInt32, ncclSum);
    if (odd == 2) all_reduce(kLength, ncclFloat32, ncclMax);
    if (odd == 3) must(ncclAllGather(memory, memory, kLength, ncclFloat32, mine.comm, stream));
    if (odd < 0) all_reduce(kLength, ncclFloat32, ncclSum);
    if (odd < 0 || odd == 4) all_reduce(kLength / 2, ncclFloat32, ncclSum);
    stream.wait();
    return true;
  });
}

// Every rank sends to the next one and then receives, `grouped` or not.
int ring_of_sends(int grouped) {
  return on_ranks(3, [grouped](const Rank& mine) {
    const TestStream stream;
    const OnDevice<float> from(kLength), to(kLength);
    if (grouped == 1) must(ncclGroupStart());
    must(ncclSend(from, kLength, ncclFloat32, (mine.rank + 1) % 3, mine.comm, stream));
    must(ncclRecv(to, kLength, ncclFloat32, (mine.rank + 2) % 3, mine.comm, stream));
    if (grouped == 1) must(ncclGroupEnd());
    stream.wait();
    return true;
  });
}

// A step of data-parallel training: gradients on one stream, their sum on another, its use on the first. What
// is missing: 0 nothing, 1 the sum's wait for the gradients, 2 the use's wait for the sum, 3 the wait before
// the gradients of the next step.
int training(int missing) {
  return on_ranks(2, [missing](const Rank& mine) {
    const TestStream compute, communication, update;
    const TestEvent made, summed;
    const OnDevice<float> gradient(kLength), weights(kLength);
    const OnHost<float> host(kLength);
    must(fill(weights, 0, kLength, update));
    float expected = 0;
    for (int step = 1; step <= 3; ++step) {
      if (step > 1 && missing != 3) must(cudaEventSynchronize(summed));
      must(fill(gradient, static_cast<float>(step + mine.rank), kLength, compute));
      must(cudaEventRecord(made, compute));
      if (missing != 1) must(cudaStreamWaitEvent(communication, made, 0));
      must(ncclAllReduce(gradient, gradient, kLength, ncclFloat32, ncclSum, mine.comm, communication));
      must(cudaEventRecord(summed, communication));
      if (missing != 2) must(cudaStreamWaitEvent(update, summed, 0));
      must(add_scaled(weights, gradient, 1, kLength, update));
      must(cudaEventRecord(summed, update));
      expected += static_cast<float>(2 * step + 1);
    }
    must(cudaMemcpyAsync(host, weights, kLength * sizeof(float), cudaMemcpyDeviceToHost, update));
    update.wait();
    communication.wait();
    compute.wait();
    for (std::size_t i = 0; i < kLength; ++i) {
      if (host[i] != expected) return false;
    }
    return true;
  });
}

// Rank 1 reads what rank 0 wrote, told by a message (0) or by nothing (1).
int token(int untold) {
  const OnHost<float> common(kLength);
  return on_ranks(2, [&common, untold](const Rank& mine) {
    const TestStream stream;
    const OnDevice<float> told(1), copied(kLength);
    must(fill(told, 1, 1, stream));
    if (mine.rank == 0) must(fill(common, 1, kLength, stream));
    if (untold == 0 && mine.rank == 0) must(ncclSend(told, 1, ncclFloat32, 1, mine.comm, stream));
    if (untold == 0 && mine.rank == 1) must(ncclRecv(told, 1, ncclFloat32, 0, mine.comm, stream));
    if (mine.rank == 1) {
      must(cudaMemcpyAsync(copied, common, kLength * sizeof(float), cudaMemcpyDefault, stream));
    }
    stream.wait();
    return true;
  });
}

constexpr Use kUses[] = {
    {"nccl_every_call", every_call}, {"nccl_mismatch", mismatch}, {"nccl_ring_of_sends", ring_of_sends},
    {"nccl_training", training},     {"nccl_token", token},
};

}  // namespace
}  // namespace zp::lab

int main(int argc, char** argv) { return zp::lab::run_use(zp::lab::kUses, argc, argv); }
