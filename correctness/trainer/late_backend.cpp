// Streams as queues that are run by whoever waits for them.
#include "correctness/trainer/late_backend.hpp"

#include <cstring>
#include <deque>
#include <functional>
#include <list>

#include "harness/base/random.hpp"
#include "harness/transport/aware.hpp"
#include "harness/transport/staged.hpp"
#include "kernels/access.hpp"

namespace zp {
namespace {

constexpr Elements kWorkspace{1024};  // fp32, of each table: nothing lies there

// What the streams of a rank share.
struct Plan {
  LateOptions options;
  uint64_t put = 0;  // pieces of work, of all streams

  // How much work runs early, now.
  int64_t early() {
    constexpr uint64_t kMost = 4;
    return options.seed == 0 ? 0 : static_cast<int64_t>(random_bits(options.seed, put++) % kMost);
  }
};

class LateStream final : public Stream {
 public:
  LateStream(Plan& plan, LeftOut waits_of_it) : plan_(plan), waits_of_it_(waits_of_it) {}

  std::shared_ptr<Mark> mark() override { return std::make_shared<LateMark>(*this, put_); }
  void run_after(const Pending& pending) override {
    if (plan_.options.left_out == waits_of_it_) return;
    const auto& mark = dynamic_cast<const LateMark&>(pending);
    put([&stream = mark.of(), ticket = mark.ticket()] { stream.run_until(ticket); });
  }
  void copy(const View& from, const View& to) override {
    put([to = to.raw(), from = from.raw(), length = static_cast<size_t>(from.bytes().n)] {
      std::memmove(to, from, length);
    });
  }
  void to_pinned(std::span<const std::byte> from, std::byte* to) override {
    put([from, to] { std::memcpy(to, from.data(), from.size()); });
  }
  void from_pinned(const std::byte* from, std::span<std::byte> to) override {
    put([from, to] { std::memcpy(to.data(), from, to.size()); });
  }

  void put(std::function<void()> work) {
    queue_.push_back(std::move(work));
    ++put_;
    run_until(std::min(put_, run_ + plan_.early()));
  }
  void run_until(int64_t ticket) {
    while (run_ < ticket) {
      const auto work = std::move(queue_.front());
      queue_.pop_front();
      ++run_;
      work();
    }
  }
  void run_all() { run_until(put_); }
  int64_t run() const { return run_; }
  const Plan& plan() const { return plan_; }

 private:
  class LateMark final : public Mark {
   public:
    LateMark(LateStream& of, int64_t ticket) : of_(of), ticket_(ticket) {}
    void wait() override {
      if (of_.plan().options.left_out != LeftOut::host_waits) of_.run_until(ticket_);
    }
    bool done() override {
      if (of_.plan().options.left_out == LeftOut::stream_before_messages) return true;
      if (of_.run() < ticket_) of_.run_until(of_.run() + 1);
      return of_.run() >= ticket_;
    }
    const Stream* stream() const override { return &of_; }
    LateStream& of() const { return of_; }
    int64_t ticket() const { return ticket_; }

   private:
    LateStream& of_;
    int64_t ticket_;
  };

  Plan& plan_;
  LeftOut waits_of_it_;
  std::deque<std::function<void()>> queue_;
  int64_t put_ = 0, run_ = 0;
};

class LateDevice final : public Device, public FarMemory {
 public:
  explicit LateDevice(Fill fill) : host_(make_host_device(fill)), pins_(make_host_device(Fill::nan)) {}

  void* allocate(Category category, Bytes bytes) override { return host_->allocate(category, bytes); }
  // Poisoned now and given back at the end: work that comes too late finds it.
  void release(Category, void* data, Bytes bytes) noexcept override {
    if (data == nullptr) return;
    std::memset(data, kNanByte, static_cast<size_t>(bytes.n));
    released_.push_back(data);
  }
  ~LateDevice() override {
    for (void* data : released_) host_->release(Category::bucket, data, {});
  }
  FarMemory* far_memory() override { return this; }

  void to_host(const View& from, std::byte* to) override {
    std::memcpy(to, from.raw(), static_cast<size_t>(from.bytes().n));
  }
  void to_device(const std::byte* from, const View& to) override {
    std::memcpy(to.raw(), from, static_cast<size_t>(to.bytes().n));
  }
  std::byte* pin(Bytes bytes) override {
    return static_cast<std::byte*>(pins_->allocate(Category::transport, bytes));
  }
  void unpin(std::byte* memory) noexcept override { pins_->release(Category::transport, memory, {}); }
  void give_back_after(Pending& work) override { work.wait(); }
  std::shared_ptr<Pending> readying() override { return nullptr; }

 private:
  static constexpr int kNanByte = 0xff;
  std::unique_ptr<Device> host_, pins_;
  std::vector<void*> released_;
};

// The host's kernels, some time after they were called.
class LateTable final : public kernels::Table {
 public:
  LateTable(Device& device, LateStream& stream, const kernels::HostOptions& options)
      : stream_(stream),
        workspace_(device.acquire(Category::workspace, Type::f32, kWorkspace)),
        inner_(kernels::make_host_table(*host_, options)) {}

  void run(const kernels::Call& call) override {
    auto held = std::make_shared<std::list<Storage>>();
    kernels::Call plain = call;
    kernels::for_each_view(plain, [&](View& view, kernels::Access) {
      if (view.empty()) return;
      const Storage& far = *view.storage();
      Storage& near = held->emplace_back();
      near.type = far.type;
      near.length = far.length;
      near.data = far.data;
      view = View(&near, view.range());
    });
    stream_.put([this, plain, held] { inner_->run(plain); });
    // Results on the host, and errors that a call throws.
    if (std::holds_alternative<kernels::HashRun>(call) || std::holds_alternative<kernels::SquareSum>(call) ||
        std::holds_alternative<kernels::ToFixed>(call))
      stream_.run_all();
  }

 private:
  LateStream& stream_;
  std::unique_ptr<Device> host_ = make_host_device(Fill::nan);
  Buffer workspace_;
  std::unique_ptr<kernels::Table> inner_;
};

class LateEngine final : public Engine {
 public:
  LateEngine(const LateOptions& options, Fill fill) : plan_{.options = options}, device_(fill) {}

  Device& device() override { return device_; }
  std::unique_ptr<kernels::Table> make_kernels(Device& device, const KernelNeeds& needs) override {
    return kernels::make_ordered_table(std::make_unique<LateTable>(device, compute_, needs.host), compute_);
  }
  Stream* transport_stream() override { return &transport_; }
  std::unique_ptr<kernels::Table> make_transport_kernels(Device& device) override {
    const kernels::HostOptions options;
    return kernels::make_ordered_table(std::make_unique<LateTable>(device, transport_, options), transport_);
  }
  std::unique_ptr<Link> make_link(Link& inner, Route route) override {
    if (route == Route::gpu_aware) return make_aware_link(inner, transport_);
    return make_staged_link(inner, device_, transport_);
  }
  std::unique_ptr<Carrier> make_carrier(Control&, double) override {
    fail(Exit::unavailable, "streams of a thread have no library that carries messages");
  }
  // Order may not rest on a clock.
  void finish() override {}
  std::optional<DeviceMemory> memory() override { return std::nullopt; }
  void begin_peak() override {}
  std::vector<std::string> choices() const override { return {}; }

 private:
  Plan plan_;
  LateDevice device_;
  LateStream compute_{plan_, LeftOut::compute_after_transport};
  LateStream transport_{plan_, LeftOut::transport_after_compute};
};

}  // namespace

std::unique_ptr<Engine> LateBackend::make_engine(int local_rank, Fill fill, double) const {
  LateOptions options = options_;
  if (options.seed != 0) options.seed += static_cast<uint64_t>(local_rank);
  return std::make_unique<LateEngine>(options, fill);
}

Bytes LateBackend::workspace(const KernelNeeds&) const { return kWorkspace * size_of(Type::f32) * 2; }

}  // namespace zp
