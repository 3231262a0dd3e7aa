// What one rank calls, and what it should get. See nccl_ranks.hpp.
#include "correctness/cuda_emulator/nccl_ranks.hpp"

#include <cuda_bf16.h>

#include <array>
#include <functional>
#include <vector>

namespace zp::lab {

namespace {

constexpr std::array<std::size_t, 4> kLengths{1, 31, 1000, 50021};  // the last is longer than a ring

float number(int rank, std::size_t i) {
  return static_cast<float>(1000 * (rank + 1)) + static_cast<float>(i % 613);
}

std::vector<float> numbers(int rank, std::size_t length) {
  std::vector<float> made(length);
  for (std::size_t i = 0; i < length; ++i) made[i] = number(rank, i);
  return made;
}

float sum(int world, std::size_t i) {
  float total = 0;
  for (int rank = 0; rank < world; ++rank) total += number(rank, i);
  return total;
}

void bring(float* to, const std::vector<float>& from, cudaStream_t stream) {
  must(cudaMemcpyAsync(to, from.data(), from.size() * sizeof(float), cudaMemcpyHostToDevice, stream));
}

bool holds(const float* device, std::size_t length, cudaStream_t stream,
           const std::function<float(std::size_t)>& expected) {
  std::vector<float> got(length);
  must(cudaMemcpyAsync(got.data(), device, length * sizeof(float), cudaMemcpyDeviceToHost, stream));
  must(cudaStreamSynchronize(stream));
  for (std::size_t i = 0; i < length; ++i) {
    if (got[i] != expected(i)) return false;
  }
  return true;
}

template <class Try>
bool at_every_length(Try attempt) {
  for (const std::size_t length : kLengths) {
    if (!attempt(length)) return false;
  }
  return true;
}

std::size_t all_of(const Rank& mine, std::size_t length) {
  return static_cast<std::size_t>(mine.world) * length;
}

}  // namespace

bool gathers(const Rank& mine) {
  return at_every_length([&](std::size_t length) {
    const TestStream stream;
    const OnDevice<float> from(length), to(all_of(mine, length));
    bring(from, numbers(mine.rank, length), stream);
    must(ncclAllGather(from, to, length, ncclFloat32, mine.comm, stream));
    return holds(to, all_of(mine, length), stream,
                 [&](std::size_t i) { return number(static_cast<int>(i / length), i % length); });
  });
}

bool gathers_in_place(const Rank& mine) {
  return at_every_length([&](std::size_t length) {
    const TestStream stream;
    const OnDevice<float> whole(all_of(mine, length));
    float* const slice = whole + static_cast<std::size_t>(mine.rank) * length;
    bring(slice, numbers(mine.rank, length), stream);
    must(ncclAllGather(slice, whole, length, ncclFloat32, mine.comm, stream));
    return holds(whole, all_of(mine, length), stream,
                 [&](std::size_t i) { return number(static_cast<int>(i / length), i % length); });
  });
}

bool scatters_sums(const Rank& mine) {
  return at_every_length([&](std::size_t length) {
    const TestStream stream;
    const OnDevice<float> from(all_of(mine, length)), to(length);
    bring(from, numbers(mine.rank, all_of(mine, length)), stream);
    must(ncclReduceScatter(from, to, length, ncclFloat32, ncclSum, mine.comm, stream));
    return holds(to, length, stream, [&](std::size_t i) {
      return sum(mine.world, static_cast<std::size_t>(mine.rank) * length + i);
    });
  });
}

bool adds_up(const Rank& mine) {
  return at_every_length([&](std::size_t length) {
    const TestStream stream;
    const OnDevice<float> memory(length);
    bring(memory, numbers(mine.rank, length), stream);
    must(ncclAllReduce(memory, memory, length, ncclFloat32, ncclSum, mine.comm, stream));
    return holds(memory, length, stream, [&](std::size_t i) { return sum(mine.world, i); });
  });
}

bool takes_extremes_and_means(const Rank& mine) {
  return at_every_length([&](std::size_t length) {
    const TestStream stream;
    const OnDevice<float> memory(length), most(length), least(length), mean(length);
    bring(memory, numbers(mine.rank, length), stream);
    must(ncclAllReduce(memory, most, length, ncclFloat32, ncclMax, mine.comm, stream));
    must(ncclAllReduce(memory, least, length, ncclFloat32, ncclMin, mine.comm, stream));
    bring(memory, std::vector<float>(length, 8.0F * static_cast<float>(mine.world)), stream);
    must(ncclAllReduce(memory, mean, length, ncclFloat32, ncclAvg, mine.comm, stream));
    const float part = 8.0F * static_cast<float>(mine.world) * (1.0F / static_cast<float>(mine.world));
    float expected = part;
    for (int rank = 1; rank < mine.world; ++rank) expected += part;
    return holds(most, length, stream, [&](std::size_t i) { return number(mine.world - 1, i); }) &&
           holds(least, length, stream, [&](std::size_t i) { return number(0, i); }) &&
           holds(mean, length, stream, [&](std::size_t) { return expected; });
  });
}

bool reduces_and_broadcasts(const Rank& mine) {
  const int root = mine.world - 1;
  return at_every_length([&](std::size_t length) {
    const TestStream stream;
    const OnDevice<float> memory(length);
    bring(memory, numbers(mine.rank, length), stream);
    must(ncclReduce(memory, memory, length, ncclFloat32, ncclSum, root, mine.comm, stream));
    const bool kept = mine.rank == root ||
                      holds(memory, length, stream, [&](std::size_t i) { return number(mine.rank, i); });
    must(ncclBroadcast(memory, memory, length, ncclFloat32, root, mine.comm, stream));
    return kept && holds(memory, length, stream, [&](std::size_t i) { return sum(mine.world, i); });
  });
}

bool sends_round(const Rank& mine) {
  const int next = (mine.rank + 1) % mine.world;
  const int last = (mine.rank + mine.world - 1) % mine.world;
  return at_every_length([&](std::size_t length) {
    const TestStream stream;
    const OnDevice<float> from(length), to(length);
    bring(from, numbers(mine.rank, length), stream);
    must(ncclGroupStart());
    must(ncclSend(from, length, ncclFloat32, next, mine.comm, stream));
    must(ncclRecv(to, length, ncclFloat32, last, mine.comm, stream));
    must(ncclGroupEnd());
    return holds(to, length, stream, [&](std::size_t i) { return number(last, i); });
  });
}

// One communicator, two streams: its calls run in the order in which they were made.
bool uses_two_streams(const Rank& mine) {
  return at_every_length([&](std::size_t length) {
    const TestStream first, second;
    const OnDevice<float> one(length), two(length);
    bring(one, numbers(mine.rank, length), first);
    bring(two, numbers(mine.rank + 1, length), second);
    must(ncclAllReduce(one, one, length, ncclFloat32, ncclSum, mine.comm, first));
    must(ncclAllReduce(two, two, length, ncclFloat32, ncclSum, mine.comm, second));
    return holds(two, length, second,
                 [&](std::size_t i) {
                   return sum(mine.world, i) + 1000.0F * static_cast<float>(mine.world);
                 }) &&
           holds(one, length, first, [&](std::size_t i) { return sum(mine.world, i); });
  });
}

// A bf16 keeps 8 bits, so that additions round.
bool adds_bf16(const Rank& mine) {
  const TestStream stream;
  const OnDevice<unsigned short> memory(2);
  const __nv_bfloat16 part = __float2bfloat16_rn(255.0F - static_cast<float>(mine.rank % 2));
  must(cudaMemcpyAsync(memory, &part, sizeof part, cudaMemcpyHostToDevice, stream));
  must(ncclAllReduce(memory, memory, 1, ncclBfloat16, ncclSum, mine.comm, stream));
  __nv_bfloat16 got = part;
  must(cudaMemcpyAsync(&got, memory, sizeof got, cudaMemcpyDeviceToHost, stream));
  stream.wait();
  float expected = 255;
  for (int rank = 1; rank < mine.world; ++rank) {
    expected = __bfloat162float(__float2bfloat16_rn(expected + 255.0F - static_cast<float>(rank % 2)));
  }
  return __bfloat162float(got) == expected;
}

}  // namespace zp::lab
