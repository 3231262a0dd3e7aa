// A GPU's memory and streams, on the emulated runtime.
#include "harness/device/cuda_device.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "correctness/emulated_backend/held.hpp"
#include "harness/device/cuda_check.hpp"
#include "harness/device/host_access.hpp"

namespace zp {
namespace {

std::vector<int64_t> counted(int64_t length) {
  std::vector<int64_t> numbers(static_cast<size_t>(length));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i * 7 + 1);
  return numbers;
}

template <class T>
std::vector<T> held(const View& view) {
  const HostView<T> seen(view);
  return {seen.begin(), seen.end()};
}

TEST(CudaDevice, FillsFreshMemoryAsAsked) {
  const auto clean = make_cuda_device(0, Fill::zero);
  const Buffer zero = clean->acquire(Category::bucket, Type::f32, {33});
  EXPECT_EQ(held<float>(zero.all()), std::vector<float>(33));
  const auto poisoned = make_cuda_device(0, Fill::nan);
  const Buffer nan = poisoned->acquire(Category::bucket, Type::f32, {33});
  for (const float x : held<float>(nan.all())) EXPECT_TRUE(std::isnan(x));
  EXPECT_TRUE(poisoned->acquire(Category::bucket, Type::f32, {0}).held());
}

// More than the staging memory holds, and no multiple of it.
TEST(CudaDevice, CopiesAnyLengthToAndFromTheHost) {
  const auto device = make_cuda_device(0, Fill::nan);
  const std::vector<int64_t> numbers = counted(300'001);
  const Buffer buffer = device->acquire(Category::scalars, Type::i64, {300'003});
  const View inner = buffer.part({{1}, {300'002}});
  write_from_host<int64_t>(inner, numbers);
  EXPECT_EQ(held<int64_t>(inner), numbers);
  EXPECT_EQ(held<int64_t>(buffer.part({{300'002}, {300'003}})), std::vector<int64_t>{-1});
  EXPECT_THROW(buffer.all().read<int64_t>(), Error);
}

TEST(CudaDevice, CopiesOnAStreamInItsOrder) {
  const auto device = make_cuda_device(0, Fill::nan);
  const auto one = device->make_stream(), other = device->make_stream();
  const std::vector<int64_t> numbers = counted(1000);
  const Buffer a = device->acquire(Category::scalars, Type::i64, {1000});
  const Buffer b = device->acquire(Category::scalars, Type::i64, {1000});
  const Buffer c = device->acquire(Category::scalars, Type::i64, {1000});
  write_from_host<int64_t>(a.all(), numbers);
  one->copy(a.all(), b.all());
  other->run_after(*one->mark());
  other->copy(b.all(), c.all());
  const auto done = other->mark();
  EXPECT_EQ(done->stream(), other.get());
  done->wait();
  EXPECT_TRUE(done->done());
  EXPECT_EQ(held<int64_t>(c.all()), numbers);
}

TEST(CudaDevice, NamesTheMemoryThatItDoesNotHave) {
  const auto device = make_cuda_device(0, Fill::zero);
  const int64_t all = find_gpus().gpus.front().memory.n;
  try {
    const Buffer buffer = device->acquire(Category::gathered, Type::f32, {all});
    FAIL() << "four times the memory was acquired";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::unavailable) << "no claim is refuted";
    EXPECT_NE(std::string(error.what()).find(std::to_string(4 * all)), std::string::npos) << error.what();
  }
  EXPECT_TRUE(device->acquire(Category::gathered, Type::f32, {10}).held());
}

TEST(CudaDevice, KnowsWhatItsPoolHolds) {
  const auto device = make_cuda_device(0, Fill::zero);
  const DeviceMemory before = device->memory();
  EXPECT_EQ(before.grain, Bytes{512});
  EXPECT_EQ(before.used, Bytes{0});
  EXPECT_EQ(before.reserved_most, Bytes{0}) << "what found out the grain is no part of it";
  {
    const Buffer one = device->acquire(Category::params, Type::f32, {1 << 18});
    const Buffer two = device->acquire(Category::grads, Type::bf16, {(1 << 18) + 1});
  }
  const Buffer three = device->acquire(Category::grads, Type::f32, {1 << 18});
  const DeviceMemory after = device->memory();
  EXPECT_EQ(after.used, Bytes{1 << 20});
  EXPECT_EQ(after.used_most, Bytes{(3 << 19) + 512});
  EXPECT_EQ(after.reserved_most, Bytes{2 << 20});
  EXPECT_EQ(after.total, before.total);
  EXPECT_EQ(before.free - after.free, Bytes{2 << 20}) << "of a device, a pool takes what it reserves";
  device->begin_peak();
  EXPECT_EQ(device->memory().used_most, Bytes{1 << 20});
}

// A buffer of a length that was given back takes that memory, which is then filled anew; all other memory
// goes back to the pool before one takes any of it, so that the pool's peak is what buffers hold at most.
TEST(CudaDevice, UsesMemoryAgainAndItsPoolNeverHasMoreThanBuffersHold) {
  for (const Fill fill : {Fill::zero, Fill::nan}) {
    const auto device = make_cuda_device(0, fill);
    const auto stream = device->make_stream();
    constexpr Elements kLength{1 << 18}, kOther{3 << 17};
    Buffer first = device->acquire(Category::gathered, Type::f32, kLength);
    Buffer kept = device->acquire(Category::params, Type::f32, kLength);
    write_from_host<float>(kept.all(), std::vector<float>(static_cast<size_t>(kLength.n), 1.0F));
    const void* const place = first.all().raw();
    stream->copy(kept.all(), first.all());
    first.all().storage()->written_by(stream->mark());
    first.drop();
    Buffer again = device->acquire(Category::gathered, Type::f32, kLength);
    EXPECT_EQ(again.all().raw(), place);
    for (const float x : held<float>(again.all()))
      ASSERT_EQ(std::isnan(x) ? 2.0F : x, fill == Fill::nan ? 2.0F : 0.0F);
    again.drop();
    kept.drop();
    const Buffer other = device->acquire(Category::gathered, Type::f32, kOther);
    const DeviceMemory memory = device->memory();
    EXPECT_EQ(memory.used, Bytes{3 << 19});
    EXPECT_EQ(memory.used_most, Bytes{2 << 20});
  }
}

TEST(CudaDevice, IsUnavailableWhereSomethingIsNotThere) {
  for (const auto& [status, code] : {std::pair{cudaErrorMemoryAllocation, Exit::unavailable},
                                     std::pair{cudaErrorDevicesUnavailable, Exit::unavailable},
                                     std::pair{cudaErrorNoKernelImageForDevice, Exit::unavailable},
                                     std::pair{cudaErrorIllegalAddress, Exit::cuda}}) {
    try {
      check(status);
      ADD_FAILURE() << cudaGetErrorName(status) << " was no failure";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
    }
  }
}

constexpr double kDeadline = 0.3;  // seconds

// What the host waited for says so, and whatever ends then is not waited for either.
TEST(CudaDevice, IsGivenUpWhereNothingEnds) {
  for (const bool by_mark : {true, false}) {
    std::optional<Held> held;
    const auto began = std::chrono::steady_clock::now();
    {
      const auto device = make_cuda_device(0, Fill::zero, kDeadline);
      const auto stream = device->make_stream();
      std::byte* pinned = device->far_memory()->pin(Bytes{64});
      const Buffer buffer = device->acquire(Category::scalars, Type::f32, {16});
      held.emplace(*stream);
      stream->from_pinned(pinned,
                          std::as_writable_bytes(std::span(static_cast<float*>(buffer.all().raw()), 16)));
      buffer.all().storage()->written_by(stream->mark());
      try {
        by_mark ? stream->mark()->wait() : stream->finish();
        ADD_FAILURE() << "what never ends is waited for";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::timeout);
        EXPECT_STREQ(error.what(), "GPU 0: waited 0.3 s for kernels and copies, none of which ended");
      }
      device->far_memory()->unpin(pinned);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  }
}

// However long it takes, as long as something does.
TEST(CudaDevice, IsWaitedForWhileSomethingEnds) {
  const auto device = make_cuda_device(0, Fill::zero, kDeadline);
  const auto stream = device->make_stream();
  std::vector<std::shared_ptr<Mark>> marks;
  for (int i = 0; i < 6; ++i) {
    check(cudaLaunchHostFunc(
        stream->handle(), [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(150)); },
        nullptr));
    marks.push_back(stream->mark());
  }
  stream->finish();
  EXPECT_TRUE(marks.back()->done());
}

TEST(CudaDevice, IsOneThatIsThere) { EXPECT_THROW(make_cuda_device(99, Fill::zero), Error); }

}  // namespace
}  // namespace zp
