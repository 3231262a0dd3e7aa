// A buffer knows who uses it: reading waits for the writer, writing also for readers, and so does giving it
// back.
#include "harness/device/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "harness/device/host_access.hpp"

namespace zp {
namespace {

class Noted : public Pending {
 public:
  Noted(std::vector<std::string>& notes, std::string name) : notes_(notes), name_(std::move(name)) {}
  void wait() override { notes_.push_back(name_); }
  const std::string& name() const { return name_; }

 private:
  std::vector<std::string>& notes_;
  std::string name_;
};

class NotedOfAStream final : public Noted {
 public:
  using Noted::Noted;
  const Stream* stream() const override { return reinterpret_cast<const Stream*>(this); }  // its address only
};

struct Waiting : testing::Test {
  std::vector<std::string> waited;
  std::unique_ptr<Device> device = make_host_device(Fill::zero);
  Buffer buffer = device->acquire(Category::grads, Type::f32, {10});

  void SetUp() override {
    buffer.all().storage()->writers = {std::make_shared<Noted>(waited, "writer")};
    buffer.all().storage()->readers = {std::make_shared<Noted>(waited, "reader")};
  }
};

TEST_F(Waiting, ReadingWaitsForTheWriterOnly) {
  buffer.part({{3}, {5}}).read<float>();
  EXPECT_EQ(waited, (std::vector<std::string>{"writer"}));
  buffer.all().read<float>();
  EXPECT_EQ(waited.size(), 1U);
}

TEST_F(Waiting, WritingWaitsForWriterAndReaders) {
  buffer.all().write<float>();
  EXPECT_EQ(waited, (std::vector<std::string>{"writer", "reader"}));
}

TEST_F(Waiting, GivingBackWaitsForAll) {
  buffer.drop();
  EXPECT_EQ(waited.size(), 2U);
  EXPECT_FALSE(buffer.held());
}

TEST_F(Waiting, RawAccessWaitsForNobody) {
  buffer.all().raw();
  EXPECT_TRUE(waited.empty());
}

TEST_F(Waiting, AHostViewWaitsForTheWriterOnlyAndCopiesNothing) {
  const HostView<float> seen(buffer.part({{3}, {5}}));
  EXPECT_EQ(waited, (std::vector<std::string>{"writer"}));
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen.data(), buffer.part({{3}, {5}}).raw());
}

TEST_F(Waiting, WritingFromTheHostWaitsForWriterAndReaders) {
  write_from_host<float>(buffer.part({{3}, {5}}), std::vector<float>{1.0F, 2.0F});
  EXPECT_EQ(waited, (std::vector<std::string>{"writer", "reader"}));
  EXPECT_EQ(buffer.all().read<float>()[4], 2.0F);
  EXPECT_THROW(write_from_host<float>(buffer.all(), std::vector<float>{1.0F}), Error);
  EXPECT_THROW(write_from_host<int32_t>(buffer.part({{3}, {4}}), std::vector<int32_t>{1}), Error);
}

// Memory that the host reaches by copies only.
class Far final : public Device, public FarMemory {
 public:
  explicit Far(std::vector<std::string>& notes) : notes_(notes) {}
  void* allocate(Category category, Bytes bytes) override { return inner_->allocate(category, bytes); }
  void release(Category category, void* data, Bytes bytes) noexcept override {
    inner_->release(category, data, bytes);
  }
  FarMemory* far_memory() override { return this; }
  void to_host(const View& from, std::byte* to) override {
    notes_.emplace_back("to host");
    std::memcpy(to, from.raw(), static_cast<size_t>(from.bytes().n));
  }
  void to_device(const std::byte* from, const View& to) override {
    notes_.emplace_back("to device");
    std::memcpy(to.raw(), from, static_cast<size_t>(to.bytes().n));
  }
  std::byte* pin(Bytes) override { return nullptr; }
  void unpin(std::byte*) noexcept override {}
  void give_back_after(Pending& work) override {
    notes_.push_back("after " + dynamic_cast<const Noted&>(work).name());
  }
  std::shared_ptr<Pending> readying() override { return std::exchange(fill, nullptr); }

  std::shared_ptr<Pending> fill;

 private:
  std::vector<std::string>& notes_;
  std::unique_ptr<Device> inner_ = make_host_device(Fill::zero);
};

TEST(FarMemory, IsCopiedAndTheHostIsRefused) {
  std::vector<std::string> notes;
  Far device(notes);
  const Buffer buffer = device.acquire(Category::grads, Type::f32, {3});
  EXPECT_THROW(buffer.all().read<float>(), Error);
  EXPECT_THROW(buffer.all().write<float>(), Error);
  EXPECT_THROW(copy(buffer.part({{0}, {1}}), buffer.part({{1}, {2}}), nullptr), Error);
  buffer.all().storage()->writers = {std::make_shared<Noted>(notes, "writer")};
  write_from_host<float>(buffer.part({{1}, {3}}), std::vector<float>{5.0F, 6.0F});
  buffer.all().storage()->writers = {std::make_shared<Noted>(notes, "writer")};
  const HostView<float> seen(buffer.all());
  EXPECT_EQ(std::vector<float>(seen.begin(), seen.end()), (std::vector<float>{0.0F, 5.0F, 6.0F}));
  EXPECT_EQ(notes, (std::vector<std::string>{"writer", "to device", "writer", "to host"}));
}

// Work of streams comes first in their order; nobody waits for it.
TEST(FarMemory, IsGivenBackAfterWorkOfStreamsAndTheHostWaitsForTheRest) {
  std::vector<std::string> notes;
  Far device(notes);
  Buffer buffer = device.acquire(Category::grads, Type::f32, {3});
  buffer.all().storage()->writers = {std::make_shared<Noted>(notes, "writer"),
                                     std::make_shared<NotedOfAStream>(notes, "writer of a stream")};
  buffer.all().storage()->readers = {std::make_shared<NotedOfAStream>(notes, "reader of a stream")};
  buffer.drop();
  EXPECT_EQ(notes,
            (std::vector<std::string>{"after writer of a stream", "writer", "after reader of a stream"}));
}

TEST(FarMemory, IsUsedAfterWhatReadiesIt) {
  std::vector<std::string> notes;
  Far device(notes);
  device.fill = std::make_shared<Noted>(notes, "readied");
  const Buffer buffer = device.acquire(Category::grads, Type::f32, {3});
  EXPECT_TRUE(notes.empty());
  const HostView<float> seen(buffer.all());
  EXPECT_EQ(notes, (std::vector<std::string>{"readied", "to host"}));
}

TEST(View, IsReadAsTheTypeItHolds) {
  const auto device = make_host_device(Fill::zero);
  const Buffer buffer = device->acquire(Category::params, Type::bf16, {4});
  EXPECT_THROW(buffer.all().read<float>(), Error);
  EXPECT_NO_THROW(buffer.all().read<bf16>());
}

TEST(View, LiesInItsBuffer) {
  const auto device = make_host_device(Fill::zero);
  const Buffer buffer = device->acquire(Category::params, Type::f32, {4});
  EXPECT_THROW(buffer.part({{2}, {5}}), Error);
  EXPECT_EQ(buffer.part({{1}, {3}}).part({{1}, {2}}).range(), (Range{{2}, {3}}));
}

TEST(HostDevice, FillsFreshMemoryAsAsked) {
  const auto poisoned = make_host_device(Fill::nan);
  const Buffer nan = poisoned->acquire(Category::bucket, Type::f32, {33});
  for (int i = 0; i < 33; ++i) EXPECT_TRUE(std::isnan(nan.all().read<float>()[i]));
  const auto clean = make_host_device(Fill::zero);
  const Buffer zero = clean->acquire(Category::bucket, Type::f32, {33});
  for (int i = 0; i < 33; ++i) EXPECT_EQ(zero.all().read<float>()[i], 0.0F);
}

TEST(HostDevice, FillsMemoryAgainThatItKept) {
  const auto device = make_host_device(Fill::zero);
  std::vector<const void*> before, after;
  for (std::vector<const void*>* seen : {&before, &after}) {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 3; ++i) {
      buffers.push_back(device->acquire(Category::bucket, Type::f32, {33}));
      float* data = buffers.back().all().write<float>();
      EXPECT_TRUE(std::all_of(data, data + 33, [](float x) { return std::bit_cast<uint32_t>(x) == 0; }));
      std::fill_n(data, 33, 1.0F);
      seen->push_back(data);
    }
  }
  EXPECT_TRUE(std::ranges::is_permutation(before, after));
}

TEST(HostDevice, AllowsNothing) {
  const auto device = make_host_device(Fill::nan);
  const Buffer none = device->acquire(Category::bucket, Type::f32, {0});
  EXPECT_TRUE(none.held());
  EXPECT_EQ(none.all().read<float>(), nullptr);
}

}  // namespace
}  // namespace zp
