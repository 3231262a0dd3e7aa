// A buffer knows who uses it: reading waits for the writer, writing also for readers, and so does giving it
// back.
#include "harness/device/device.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace zp {
namespace {

class Noted final : public Pending {
 public:
  Noted(std::vector<std::string>& notes, std::string name) : notes_(notes), name_(std::move(name)) {}
  void wait() override { notes_.push_back(name_); }

 private:
  std::vector<std::string>& notes_;
  std::string name_;
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

TEST(HostDevice, AllowsNothing) {
  const auto device = make_host_device(Fill::nan);
  const Buffer none = device->acquire(Category::bucket, Type::f32, {0});
  EXPECT_TRUE(none.held());
  EXPECT_EQ(none.all().read<float>(), nullptr);
}

}  // namespace
}  // namespace zp
