// Waits of the host for memory that others still use, each in a use that fails without it: of collectives of
// a library's own, and of messages between threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "correctness/transport/plain.hpp"

namespace zp {
namespace {

using namespace std::chrono_literals;

// ---- Collectives of a library

constexpr Elements kSlice{40};
constexpr int kSlow = 9, kFast = 2;
constexpr int64_t kGathered = 5;

// Of place 0 of two, of which the other brings zeros to a sum and one number to a gather. Does its work when
// it has been asked so often whether it is done.
class LateNative final : public Native {
 public:
  int rank() const override { return 0; }
  int world() const override { return 2; }
  std::unique_ptr<Request> reduce_scatter(const View& data, const std::vector<Elements>&) override {
    return begin(data, [] {});
  }
  std::unique_ptr<Request> all_reduce(const View& data) override {
    return begin(data, [] {});
  }
  std::unique_ptr<Request> all_gather(const View& data, const std::vector<Elements>&) override {
    return begin(data, [data] {
      for (int64_t i = kSlice.n; i < 2 * kSlice.n; ++i) {
        if (data.type() == Type::i64) static_cast<int64_t*>(data.raw())[i] = kGathered;
        if (data.type() == Type::f32) static_cast<float*>(data.raw())[i] = static_cast<float>(kGathered);
      }
    });
  }

  int asked_until_done = kFast;
  int under_way() const { return static_cast<int>(regions_.size()); }
  bool shared_memory = false;  // of two collectives at once

 private:
  class Late final : public Request {
   public:
    Late(LateNative& native, void* region, std::function<void()> work)
        : native_(native), region_(region), work_(std::move(work)), left_(native.asked_until_done) {}
    bool done() override {
      if (--left_ > 0) return false;
      work_();
      std::erase(native_.regions_, region_);
      return true;
    }

   private:
    LateNative& native_;
    void* region_;
    std::function<void()> work_;
    int left_;
  };

  std::unique_ptr<Request> begin(const View& data, std::function<void()> work) {
    shared_memory |= std::ranges::find(regions_, data.raw()) != regions_.end();
    regions_.push_back(data.raw());
    return std::make_unique<Late>(*this, data.raw(), std::move(work));
  }

  std::vector<void*> regions_;
};

const Label kLabel{Purpose::reduce_grads, 0, "unit"};
const Cuts kCuts = Cuts::equal(2, kSlice);
const Range kOwn = kCuts.of(0), kOther = kCuts.of(1);

// One buffer for everything that a collective may be given.
struct Memory {
  explicit Memory(Device& device)
      : whole(device.acquire(Category::grads, Type::f32, kCuts.whole())),
        mine(device.acquire(Category::grads, Type::f32, kCuts.whole())),
        sums(device.acquire(Category::transport, Type::i64, kCuts.whole())),
        image(device.acquire(Category::transport, Type::i64, kCuts.whole())) {
    for (int64_t i = 0; i < kCuts.whole().n; ++i) {
      whole.all().write<float>()[i] = mine.all().write<float>()[i] = static_cast<float>(i);
      sums.all().write<int64_t>()[i] = image.all().write<int64_t>()[i] = i << 44U;
    }
  }
  Buffer whole, mine, sums, image;
};

struct Use {
  const char* text;
  Buffer Memory::*shared;  // with a collective that is under way
  std::function<Handle(Transport&, Memory&)> start;
  std::function<float(int64_t)>
      expected;  // of what lies in `shared` where that one writes; none: not looked at
  std::vector<Buffer Memory::*> written = {};
};

Handle scatter(Transport& transport, Memory& m, const View& image) {
  return transport.reduce_scatter(
      {m.whole.all(), m.mine.part(kOther), kCuts, 1.0F, kLabel, {.image = image, .terms = 1}});
}
Handle reduce(Transport& transport, Memory& m, const View& image, const View& sums) {
  return transport.all_reduce({m.whole.all(), kCuts, 1.0F, kLabel, {.image = image, .terms = 1}, sums});
}

std::vector<Use> uses() {
  const auto place = [](int64_t i) { return static_cast<float>(i); };
  const auto own = [](int64_t i) { return static_cast<float>(i - kSlice.n); };
  const auto scattered = [](Transport& t, Memory& m) { return scatter(t, m, {}); };
  const auto scattered_image = [](Transport& t, Memory& m) { return scatter(t, m, m.image.all()); };
  const auto reduced = [](Transport& t, Memory& m) { return reduce(t, m, {}, {}); };
  const auto reduced_sums = [](Transport& t, Memory& m) { return reduce(t, m, {}, m.sums.all()); };
  const auto reduced_image = [](Transport& t, Memory& m) { return reduce(t, m, m.image.all(), {}); };
  const auto gathered = [](Transport& t, Memory& m) {
    return t.all_gather({m.mine.part(kOther), m.whole.all(), kCuts, kLabel});
  };
  return {{"reduce-scatter of", &Memory::whole, scattered, {}, {&Memory::whole, &Memory::mine}},
          {"reduce-scatter into", &Memory::mine, scattered, own, {}},
          {"reduce-scatter in", &Memory::image, scattered_image, {}, {&Memory::image}},
          {"all-gather into", &Memory::whole, gathered, {}, {&Memory::whole}},
          {"all-gather from", &Memory::mine, gathered, {}, {}},
          {"all-reduce of", &Memory::whole, reduced, {}, {&Memory::whole}},
          {"all-reduce into", &Memory::whole, reduced_sums, place, {&Memory::whole, &Memory::sums}},
          {"all-reduce of sums", &Memory::sums, reduced_sums, {}, {}},
          {"all-reduce in", &Memory::image, reduced_image, {}, {&Memory::image}}};
}

struct Bench {
  std::unique_ptr<Device> device = make_host_device(Fill::nan);
  LateNative native;
  plain::FoldOnly kernels;
  std::unique_ptr<Transport> transport =
      make_native(native, kernels, {.algorithm = Algorithm::native, .places = Places::in_rank_order(2)});
  Memory memory{*device};
};

// While a slower collective gathers into the same memory.
TEST(NativeWaits, GiveTheLibraryNoMemoryThatAnotherCollectiveHas) {
  for (const Use& use : uses()) {
    Bench bench;
    Buffer& shared = bench.memory.*use.shared;
    bench.native.asked_until_done = kSlow;
    bench.transport->all_gather({shared.part(kOwn), shared.all(), kCuts, kLabel});
    bench.native.asked_until_done = kFast;
    use.start(*bench.transport, bench.memory).wait();
    bench.transport->poll();
    while (bench.native.under_way() > 0) bench.transport->poll();
    EXPECT_FALSE(bench.native.shared_memory) << use.text;
    for (int64_t i = kOther.begin.n; use.expected && i < kOther.end.n; ++i)
      ASSERT_EQ(static_cast<const float*>(shared.all().raw())[i], use.expected(i)) << use.text << " " << i;
    if (std::string_view(use.text) != "all-gather from") continue;
    for (int64_t i = kOwn.begin.n; i < kOwn.end.n; ++i)
      ASSERT_EQ(bench.memory.whole.all().read<float>()[i], static_cast<float>(kGathered)) << i;
  }
}

TEST(NativeWaits, LetNobodyReadWhatACollectiveStillWrites) {
  for (const Use& use : uses()) {
    for (Buffer Memory::*written : use.written) {
      Bench bench;
      use.start(*bench.transport, bench.memory);
      const View view = (bench.memory.*written).all();
      if (view.type() == Type::i64) {
        view.read<int64_t>();
      } else {
        view.read<float>();
      }
      EXPECT_EQ(bench.native.under_way(), 0) << use.text;
    }
  }
}

// ---- Messages between threads

constexpr size_t kLong = 32 << 20;  // bytes: copied for some milliseconds

using Contents = std::vector<std::byte>;

// What arrived of a message of ones whose sender writes a two as soon as sent() returns; none where it never
// did. The receiver rests before it asks for the message.
std::optional<Contents> arrived(
    std::chrono::milliseconds rest,
    const std::function<void(std::unique_ptr<Request>&, const std::atomic<bool>&)>& sent) {
  Contents from(kLong, std::byte{1}), into(kLong);
  std::atomic<bool> asks{false}, written{false};
  bool came = false;
  transport_named("threads").run(2, 60.0, [&](Endpoint& endpoint) {
    if (endpoint.link->rank() == 0) {
      auto request = endpoint.link->send(1, {}, from);
      sent(request, asks);
      from.back() = std::byte{2};  // which is copied last
      written = true;
      return endpoint.control->barrier();
    }
    const auto request = endpoint.link->receive(0, {}, into);
    std::this_thread::sleep_for(rest);
    asks = true;
    while (!came && !written) came = request->done();
    if (!came) came = request->done();
    endpoint.control->barrier();
  });
  return came ? std::optional(into) : std::nullopt;
}

TEST(ThreadWaits, ASenderIsDoneOnceItsMessageIsCopied) {
  const auto bytes = arrived(20ms, [](std::unique_ptr<Request>& request, const std::atomic<bool>&) {
    while (!request->done()) std::this_thread::yield();
  });
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->back(), std::byte{1});
}

// The request ends while the other rank copies.
TEST(ThreadWaits, AMessageIsWithdrawnOnceNobodyCopiesIt) {
  int copied = 0;
  for (int i = 0; i < 100 && copied < 8; ++i) {
    const auto bytes = arrived(0ms, [i](std::unique_ptr<Request>& request, const std::atomic<bool>& asks) {
      while (!asks) std::this_thread::yield();
      std::this_thread::sleep_for(100us * (i % 10));
      request.reset();
    });
    if (!bytes) continue;
    ++copied;
    EXPECT_EQ(bytes->back(), std::byte{1});
  }
  EXPECT_GT(copied, 0);
}

}  // namespace
}  // namespace zp
