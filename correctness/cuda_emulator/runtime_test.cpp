// What the emulated runtime promises to host code: order in streams, events, NaN-filled and limited memory,
// checked copies, memory in stream order, refused misuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "correctness/cuda_emulator/checked.hpp"
#include "correctness/cuda_emulator/lab.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::lab {
namespace {

using emulated::Schedule;
using emulated::Settings;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class EverySchedule : public testing::TestWithParam<Schedule> {
 protected:
  EverySchedule() {
    emulated::configure(Settings{.schedule = GetParam(), .devices = 2, .memory_bytes = 64 * kMiB});
  }
  ~EverySchedule() override { emulated::configure(Settings{}); }
};

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule, testing::Values(Schedule::free_running, Schedule::serial),
                         [](const auto& info) { return info.param == Schedule::serial ? "serial" : "free"; });

bool all_nan(const float* values, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) {
    if (!std::isnan(values[i])) return false;
  }
  return true;
}

struct Said {
  std::vector<int>* log;
  int what;
};

void say(void* said) {
  const auto& [log, what] = *static_cast<Said*>(said);
  log->push_back(what);
}

TEST_P(EverySchedule, RunsHostFunctionsInOrderAcrossStreamsThatWait) {
  const TestStream first, second;
  const TestEvent done;
  std::vector<int> log;
  std::vector<Said> says{{&log, 0}, {&log, 1}, {&log, 2}, {&log, 3}};
  must(cudaLaunchHostFunc(first, say, &says[0]));
  must(cudaLaunchHostFunc(first, say, &says[1]));
  must(cudaEventRecord(done, first));
  must(cudaStreamWaitEvent(second, done, 0));
  must(cudaLaunchHostFunc(second, say, &says[2]));
  must(cudaLaunchHostFunc(second, say, &says[3]));
  second.wait();
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 3}));
}

TEST_P(EverySchedule, QueriesEndByThemselves) {
  const TestStream stream;
  const TestEvent done;
  EXPECT_EQ(cudaEventQuery(done), cudaSuccess) << "an event that was never recorded is done";
  const OnDevice<float> values(100);
  must(fill(values, 1, 100, stream));
  must(cudaEventRecord(done, stream));
  while (cudaEventQuery(done) == cudaErrorNotReady) {
  }
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
  }
  EXPECT_EQ(cudaEventQuery(done), cudaSuccess);
}

TEST_P(EverySchedule, RunsWhatAHostThreadEnqueuedBeforeItWaitsElsewhere) {
  std::atomic<bool> ran{false};
  const TestStream stream;
  const auto set = [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; };
  must(cudaLaunchHostFunc(stream, set, &ran));
  const auto began = std::chrono::steady_clock::now();
  while (!ran && std::chrono::steady_clock::now() - began < std::chrono::seconds(20)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(ran);
}

TEST_P(EverySchedule, MeasuresTimeBetweenEvents) {
  const TestStream stream;
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  must(cudaEventCreate(&from));
  must(cudaEventCreate(&to));
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, from, to), cudaErrorInvalidResourceHandle) << "never recorded";
  must(cudaEventRecord(from, stream));
  must(cudaLaunchHostFunc(
      stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr));
  must(cudaEventRecord(to, stream));
  stream.wait();
  must(cudaEventElapsedTime(&ms, from, to));
  EXPECT_GE(ms, 5);
  must(cudaEventDestroy(from));
  must(cudaEventDestroy(to));
}

TEST_P(EverySchedule, FillsNewMemoryWithNan) {
  const OnHost<float> pinned(1000);
  EXPECT_TRUE(all_nan(pinned, 1000));
  const OnDevice<float> memory(1000);
  std::vector<float> values(1000);
  must(cudaMemcpy(values.data(), memory, 4000, cudaMemcpyDeviceToHost));
  EXPECT_TRUE(all_nan(values.data(), 1000));
}

TEST_P(EverySchedule, LimitsTheMemoryOfEachDevice) {
  void* large = nullptr;
  void* small = nullptr;
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(cudaMalloc(&large, 65 * kMiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "asked once, forgotten";
  must(cudaMalloc(&large, 60 * kMiB));
  must(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(total, 64 * kMiB);
  EXPECT_EQ(free, 4 * kMiB);
  EXPECT_EQ(cudaMalloc(&small, 5 * kMiB), cudaErrorMemoryAllocation);
  must(cudaSetDevice(1));
  must(cudaMalloc(&small, 5 * kMiB));
  must(cudaSetDevice(0));
  must(cudaFree(large));
  must(cudaFree(small));
  must(cudaMalloc(&large, 64 * kMiB));
  must(cudaFree(large));
  EXPECT_EQ(emulated::peak_bytes(0), 64 * kMiB);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  cudaGetLastError();
}

TEST_P(EverySchedule, RefusesCopiesOutOfRangeOrInTheWrongDirection) {
  const TestStream stream;
  const OnDevice<float> device(100);
  const OnHost<float> host(100);
  const auto copy = [&](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, stream);
  };
  EXPECT_EQ(copy(device, host, 400, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(copy(device, host, 400, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(copy(device, host, 404, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device + 1, host, 400, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device, host, 400, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host, device, 400, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device, device, 400, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device + 50, 0, 204, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device, 0, 404), cudaErrorInvalidValue);
  std::vector<float> pageable(100);
  EXPECT_EQ(cudaMemset(pageable.data(), 0, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(device), cudaErrorInvalidValue);
  cudaGetLastError();
  stream.wait();
}

TEST_P(EverySchedule, RefusesTheDefaultStreamAndDeadHandles) {
  const OnDevice<float> device(100);
  EXPECT_EQ(fill(device, 0, 100, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaMemsetAsync(device, 0, 4, cudaStreamLegacy), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaErrorInvalidResourceHandle);
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  must(cudaStreamCreate(&stream));
  must(cudaEventCreate(&event));
  must(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  must(cudaEventDestroy(event));
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_P(EverySchedule, RefusesLaunchesThatNoDeviceCanRun) {
  const TestStream stream;
  const OnDevice<std::uint32_t> device(4096);
  EXPECT_EQ(where_am_i(device, dim3(1), dim3(1025), stream), cudaErrorInvalidConfiguration);
  EXPECT_EQ(where_am_i(device, dim3(0), dim3(32), stream), cudaErrorInvalidConfiguration);
  EXPECT_EQ(where_am_i(device, dim3(1, 65536), dim3(1), stream), cudaErrorInvalidConfiguration);
  EXPECT_EQ(where_am_i(device, dim3(1), dim3(1, 1, 65), stream), cudaErrorInvalidConfiguration);
  must(cudaSetDevice(1));
  EXPECT_EQ(where_am_i(device, dim3(1), dim3(32), stream), cudaErrorInvalidResourceHandle)
      << "another device's stream";
  must(cudaSetDevice(0));
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(allow_reverse(164 * 1024), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_P(EverySchedule, RefusesCudaWithinAHostFunction) {
  const TestStream stream;
  struct Tried {
    cudaStream_t stream;
    cudaError_t code = cudaSuccess;
  } tried{stream};
  const auto synchronise = [](void* argument) {
    auto& of = *static_cast<Tried*>(argument);
    of.code = cudaStreamSynchronize(of.stream);
  };
  must(cudaLaunchHostFunc(stream, synchronise, &tried));
  stream.wait();
  EXPECT_EQ(tried.code, cudaErrorNotPermitted);
}

TEST_P(EverySchedule, TakesPageableMemoryBeforeItReturns) {
  const TestStream stream;
  const OnDevice<float> device(1000);
  std::vector<float> values(1000, 3);
  must(cudaMemcpyAsync(device, values.data(), 4000, cudaMemcpyHostToDevice, stream));
  std::ranges::fill(values, 0.0F);  // was taken already
  must(cudaMemcpyAsync(values.data(), device, 4000, cudaMemcpyDeviceToHost, stream));
  stream.wait();
  EXPECT_EQ(values, std::vector<float>(1000, 3));
}

TEST_P(EverySchedule, KeepsRanksThatAreThreadsApart) {
  std::vector<std::thread> ranks;
  std::vector<int> wrong(4, -1);
  for (std::size_t rank = 0; rank < wrong.size(); ++rank) {
    ranks.emplace_back([&wrong, rank] {
      must(cudaSetDevice(static_cast<int>(rank % 2)));
      const TestStream stream;
      const OnDevice<float> device(500);
      std::vector<float> values(500);
      must(fill(device, static_cast<float>(rank), 500, stream));
      must(cudaMemcpyAsync(values.data(), device, 2000, cudaMemcpyDeviceToHost, stream));
      stream.wait();
      wrong[rank] = static_cast<int>(500 - std::ranges::count(values, static_cast<float>(rank)));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

// ---- Pools

std::uint64_t number_of(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t value = 0;
  must(cudaMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

cudaMemPool_t make_pool() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  must(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

TEST_P(EverySchedule, CountsWhatAPoolHolds) {
  const TestStream stream;
  cudaMemPool_t pool = make_pool();
  void* first = nullptr;
  void* second = nullptr;
  std::size_t free_before = 0, free_after = 0, total = 0;
  must(cudaMemGetInfo(&free_before, &total));
  must(cudaMallocFromPoolAsync(&first, 3 * kMiB, pool, stream));
  must(cudaMallocFromPoolAsync(&second, 1000, pool, stream));
  EXPECT_EQ(number_of(pool, cudaMemPoolAttrUsedMemCurrent), 3 * kMiB + 1024);
  must(cudaFreeAsync(first, stream));
  EXPECT_EQ(number_of(pool, cudaMemPoolAttrUsedMemCurrent), 1024U);
  EXPECT_EQ(number_of(pool, cudaMemPoolAttrUsedMemHigh), 3 * kMiB + 1024);
  EXPECT_EQ(number_of(pool, cudaMemPoolAttrReservedMemHigh), 4 * kMiB);
  must(cudaMemGetInfo(&free_after, &total));
  EXPECT_EQ(free_before - free_after, 4 * kMiB) << "what a pool reserved is not free";
  std::uint64_t zero = 0;
  must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
  EXPECT_EQ(number_of(pool, cudaMemPoolAttrUsedMemHigh), 1024U);
  stream.wait();
  EXPECT_EQ(number_of(pool, cudaMemPoolAttrReservedMemCurrent), 2 * kMiB)
      << "the rest went back when the host waited";
  must(cudaFreeAsync(second, stream));
  EXPECT_EQ(cudaFreeAsync(second, stream), cudaErrorInvalidValue) << "given back twice";
  cudaGetLastError();
  stream.wait();
  must(cudaMemPoolDestroy(pool));
}

TEST_P(EverySchedule, PoisonsMemoryOfAPoolInStreamOrder) {
  const TestStream stream;
  void* memory = nullptr;
  std::vector<float> before(100);
  must(cudaMallocAsync(&memory, 400, stream));
  must(cudaMemcpyAsync(before.data(), memory, 400, cudaMemcpyDeviceToHost, stream));
  stream.wait();
  EXPECT_TRUE(all_nan(before.data(), 100));
  must(fill(static_cast<float*>(memory), 2, 100, stream));
  must(cudaMemcpyAsync(before.data(), memory, 400, cudaMemcpyDeviceToHost, stream));
  stream.wait();
  EXPECT_EQ(before, std::vector<float>(100, 2));
  must(cudaFreeAsync(memory, stream));
  EXPECT_EQ(cudaMemcpyAsync(before.data(), memory, 400, cudaMemcpyDeviceToHost, stream),
            cudaErrorInvalidValue)
      << "given back";
  cudaGetLastError();
  void* too_much = nullptr;
  EXPECT_EQ(cudaMallocAsync(&too_much, 65 * kMiB, stream), cudaErrorMemoryAllocation);
  cudaGetLastError();
  stream.wait();
}

}  // namespace
}  // namespace zp::lab
