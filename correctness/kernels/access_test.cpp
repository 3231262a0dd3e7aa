// What a call is said to read and to write is what the host's kernels wait for, row by row; and a table on a
// stream waits for that, and is waited for.
#include "kernels/access.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "correctness/kernels/hosts.hpp"
#include "kernels/cases.hpp"

namespace zp::kernels {
namespace {

class Seen final : public Pending {
 public:
  void wait() override { waited = true; }
  bool waited = false;
};

struct Watched {
  std::shared_ptr<Seen> writer = std::make_shared<Seen>(), reader = std::make_shared<Seen>();
  std::string text() const { return reader->waited ? "written" : writer->waited ? "read" : "left alone"; }
};

class AccessOf : public testing::TestWithParam<KernelCase> {};

TEST_P(AccessOf, EveryKernelIsWhatTheHostWaitsFor) {
  const auto device = make_host_device(Fill::zero);
  CaseMemory memory(*device);
  const auto table = make_host_table(*device, {.threads = 1, .max_sequence = kOddSizes.sequence});
  const Call call = GetParam().make(memory, kOddSizes);
  std::map<Storage*, Watched> watched;
  std::map<Storage*, std::string> said;
  for (const View& view : memory.views()) {
    const Watched& seen = watched[view.storage()];
    view.storage()->writers = {seen.writer};
    view.storage()->readers = {seen.reader};
    said[view.storage()] = "left alone";
  }
  for_each_view(call, [&](const View& view, Access access) {
    if (view.empty()) return;
    std::string& text = said.at(view.storage());
    if (access == Access::written) text = "written";
    if (access == Access::read && text != "written") text = "read";
  });
  table->run(call);
  size_t number = 0;
  for (const View& view : memory.views()) {
    EXPECT_EQ(said[view.storage()], watched[view.storage()].text()) << "buffer " << number;
    ++number;
  }
}

INSTANTIATE_TEST_SUITE_P(, AccessOf, testing::ValuesIn(kernel_cases().begin(), kernel_cases().end()),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

// A stream that only writes down what it is told.
class NotingStream final : public Stream {
 public:
  class Note final : public Mark {
   public:
    Note(const NotingStream& of, std::string name) : of_(of), name(std::move(name)) {}
    void wait() override {}
    bool done() override { return true; }
    const Stream* stream() const override { return &of_; }

   private:
    const NotingStream& of_;

   public:
    const std::string name;
  };
  explicit NotingStream(std::string name) : name_(std::move(name)) {}
  std::shared_ptr<Mark> mark() override {
    return std::make_shared<Note>(*this, name_ + std::to_string(++marks_));
  }
  void run_after(const Pending& pending) override {
    after.push_back(dynamic_cast<const Note&>(pending).name);
  }
  void copy(const View&, const View&) override {}
  void to_pinned(std::span<const std::byte>, std::byte*) override {}
  void from_pinned(const std::byte*, std::span<std::byte>) override {}
  std::vector<std::string> after;

 private:
  std::string name_;
  int marks_ = 0;
};

class Nothing final : public Table {
 public:
  void run(const Call&) override {}
};

struct OnStreams : testing::Test {
  std::unique_ptr<Device> device = make_host_device(Fill::zero);
  Buffer x = device->acquire(Category::activations, Type::f32, {4});
  Buffer y = device->acquire(Category::activations, Type::f32, {4});
  NotingStream a{"a"}, b{"b"};
  std::unique_ptr<Table> on_a = make_ordered_table(std::make_unique<Nothing>(), a);
  std::unique_ptr<Table> on_b = make_ordered_table(std::make_unique<Nothing>(), b);
  using Names = std::vector<std::string>;
};

TEST_F(OnStreams, AReaderRunsAfterTheWriter) {
  on_a->run(Initialize{.x = x.all()});
  on_b->run(GeluForward{.x = x.all(), .y = y.all()});
  EXPECT_EQ(b.after, Names{"a1"});
}

TEST_F(OnStreams, AWriterRunsAfterReadersAndWriter) {
  on_a->run(Initialize{.x = x.all()});
  on_b->run(GeluForward{.x = x.all(), .y = y.all()});
  b.after.clear();
  on_a->run(Initialize{.x = x.all()});
  EXPECT_EQ(a.after, Names{"b1"});  // its own work is in order by itself
  on_b->run(Initialize{.x = x.all()});
  EXPECT_EQ(b.after, Names{"a2"});
}

TEST_F(OnStreams, ReadersDoNotWaitForEachOther) {
  on_a->run(Initialize{.x = x.all()});
  on_a->run(GeluForward{.x = x.all(), .y = y.all()});
  const Buffer z = device->acquire(Category::activations, Type::f32, {4});
  on_b->run(GeluForward{.x = x.all(), .y = z.all()});
  EXPECT_EQ(b.after, Names{"a1"});
}

TEST_F(OnStreams, ABufferKeepsOneReaderOfAStream) {
  on_a->run(Initialize{.x = x.all()});
  for (int i = 0; i < 100; ++i) on_b->run(GeluForward{.x = x.all(), .y = y.all()});
  EXPECT_EQ(x.all().storage()->readers.size(), 1U);
  EXPECT_EQ(y.all().storage()->writers.size(), 1U);
}

TEST_F(OnStreams, ATransferIsWaitedForByTheHostAndWhatItLeavesBehindByTheStream) {
  class Transfer final : public Pending {
   public:
    Transfer(Storage& storage, NotingStream& stream) : storage_(storage), stream_(stream) {}
    void wait() override { storage_.also_written_by(stream_.mark()); }

   private:
    Storage& storage_;
    NotingStream& stream_;
  };
  x.all().storage()->writers = {std::make_shared<Transfer>(*x.all().storage(), b)};
  on_a->run(GeluForward{.x = x.all(), .y = y.all()});
  EXPECT_EQ(a.after, Names{"b1"});
}

}  // namespace
}  // namespace zp::kernels
