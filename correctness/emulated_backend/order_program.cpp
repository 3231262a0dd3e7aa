// order_program USE [forget]: buffers on two streams of an emulated GPU, used one after the other; with
// "forget" the one wait that the use needs is left out. For the thread sanitizer, which reports what nothing
// orders.
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "correctness/cuda_emulator/arena.hpp"
#include "correctness/cuda_emulator/waits.hpp"
#include "harness/device/cuda_device.hpp"
#include "harness/device/host_access.hpp"
#include "harness/transport/aware.hpp"
#include "harness/transport/staged.hpp"
#include "kernels/access.hpp"
#include "kernels/cuda/cuda_table.hpp"
#include "kernels/cuda/vendor_table.hpp"

namespace zp {
namespace {

constexpr Elements kLength{20'000};
constexpr int64_t kSide = 20;  // of matrices

// Waits that are asked of it are not made.
class Forgetful final : public Stream {
 public:
  class Forgotten final : public Mark {
   public:
    explicit Forgotten(std::shared_ptr<Mark> inner) : inner_(std::move(inner)) {}
    void wait() override {}
    bool done() override { return true; }
    const Stream* stream() const override { return inner_->stream(); }

   private:
    std::shared_ptr<Mark> inner_;
  };
  explicit Forgetful(Stream& inner) : inner_(inner) {}
  std::shared_ptr<Mark> mark() override { return std::make_shared<Forgotten>(inner_.mark()); }
  void run_after(const Pending&) override {}
  void copy(const View& from, const View& to) override { inner_.copy(from, to); }
  void to_pinned(std::span<const std::byte> from, std::byte* to) override { inner_.to_pinned(from, to); }
  void from_pinned(const std::byte* from, std::span<std::byte> to) override { inner_.from_pinned(from, to); }

 private:
  Stream& inner_;
};

// A message is there once it is sent. Reaches the memory of a device by itself, as a GPU-aware MPI.
class Loop final : public Link {
 public:
  class Over final : public Request {
   public:
    bool done() override { return true; }
  };
  int rank() const override { return 0; }
  int world() const override { return 1; }
  std::unique_ptr<Request> send(int, const Tag&, std::span<const std::byte> bytes) override {
    const emulated::DeviceAccess open;
    sent_.assign(bytes.begin(), bytes.end());
    return std::make_unique<Over>();
  }
  std::unique_ptr<Request> receive(int, const Tag&, std::span<std::byte> bytes) override {
    const emulated::DeviceAccess open;
    std::memset(bytes.data(), ++number_, bytes.size());
    return std::make_unique<Over>();
  }

 private:
  std::vector<std::byte> sent_;
  int number_ = 0;
};

struct Bench {
  explicit Bench(bool forget) : a_(*own_a), b_(*own_b), forget_(forget) {}

  std::unique_ptr<CudaDevice> device = make_cuda_device(0, Fill::nan);
  std::unique_ptr<CudaStream> own_a = device->make_stream(), own_b = device->make_stream();
  Forgetful a_, b_;
  bool forget_;
  Stream& a() { return forget_ ? static_cast<Stream&>(a_) : *own_a; }
  Stream& b() { return forget_ ? static_cast<Stream&>(b_) : *own_b; }
  Buffer x = device->acquire(Category::activations, Type::f32, kLength);
  Buffer y = device->acquire(Category::activations, Type::f32, kLength);
  std::unique_ptr<kernels::Table> on_a =
      kernels::make_ordered_table(kernels::make_cuda_table(*device, {.stream = own_a->handle()}), a());
  std::unique_ptr<kernels::Table> on_b =
      kernels::make_ordered_table(kernels::make_cuda_table(*device, {.stream = own_b->handle()}), b());
  // Whose waits are all made.
  std::unique_ptr<kernels::Table> table_on_own_a() {
    return kernels::make_ordered_table(kernels::make_cuda_table(*device, {.stream = own_a->handle()}),
                                       *own_a);
  }
  Loop loop;
  std::unique_ptr<Link> link = make_staged_link(loop, *device->far_memory(), a());
  std::unique_ptr<Link> aware = make_aware_link(loop, a());

  void write(kernels::Table& on, const Buffer& to) {
    on.run(kernels::Initialize{.x = to.all(), .init = Init::ones});
  }
  void read(kernels::Table& on, const Buffer& from, const Buffer& to) {
    on.run(kernels::GeluForward{.x = from.all(), .y = to.all()});
  }
  kernels::VendorOptions product_options(Type operands) const {
    return {.stream = own_b->handle(),
            .operands = operands,
            .largest_a = kSide * kSide,
            .largest_b = kSide * kSide};
  }
  std::unique_ptr<kernels::Table> product_table(Type operands) {
    const kernels::VendorOptions options = product_options(operands);
    return kernels::make_vendor_table(kernels::make_cuda_table(*device, {.stream = options.stream}), *device,
                                      options);
  }
  std::unique_ptr<kernels::Table> product_on_b() {
    return kernels::make_ordered_table(product_table(Type::f32), b());
  }
  // The first elements of y become a product of those of x.
  void multiply(kernels::Table& product) const {
    const Range square{{0}, {kSide * kSide}};
    product.run(kernels::Gemm{
        .a = x.part(square), .b = x.part(square), .c = y.part(square), .m = kSide, .n = kSide, .k = kSide});
  }
  // Of this thread, of the host: where waits are left out at all.
  void leave_out_next_wait() const {
    const int next = 1;
    if (forget_) emulated::watch_waits(&next, 1);
  }
  void finish() {
    own_a->finish();
    own_b->finish();
  }
  std::span<std::byte> bytes(const Buffer& of) {
    return {static_cast<std::byte*>(of.all().raw()), static_cast<size_t>(of.all().bytes().n)};
  }
  static void complete(Request& request) {
    while (!request.done()) continue;
  }
};

const std::map<std::string, void (*)(Bench&)>& uses() {
  static const std::map<std::string, void (*)(Bench&)> list{
      {"read_after_write",
       [](Bench& bench) {
         bench.write(*bench.on_a, bench.x);
         bench.read(*bench.on_b, bench.x, bench.y);
       }},
      {"write_after_read",
       [](Bench& bench) {
         bench.write(*bench.on_a, bench.x);
         bench.finish();
         bench.read(*bench.on_b, bench.x, bench.y);
         bench.write(*bench.on_a, bench.x);
       }},
      // What waits, or is waited for, is a product by the vendor's library.
      {"product_after_write",
       [](Bench& bench) {
         const auto product = bench.product_on_b();
         bench.write(*bench.on_a, bench.x);
         bench.multiply(*product);
       }},
      {"write_after_product",
       [](Bench& bench) {
         const auto product = bench.product_on_b();
         bench.write(*bench.on_a, bench.x);
         bench.finish();
         bench.multiply(*product);
         bench.write(*bench.on_a, bench.x);
       }},
      {"read_of_product",
       [](Bench& bench) {
         const auto product = bench.product_on_b();
         bench.multiply(*product);
         std::printf("%g\n", static_cast<double>(HostView<float>(bench.y.all())[0]));
       }},
      // Its operands, rounded, lie in memory that the table gives back.
      {"table_ends_before_its_product",
       [](Bench& bench) {
         auto product = bench.product_table(Type::bf16);
         bench.multiply(*product);
         bench.leave_out_next_wait();
         product.reset();
       }},
      // In memory that is being filled again.
      {"product_in_memory_given_back",
       [](Bench& bench) {
         const kernels::VendorOptions options = bench.product_options(Type::bf16);
         auto own = kernels::make_cuda_table(*bench.device, {.stream = options.stream});
         bench.device
             ->acquire(Category::workspace, Type::f32,
                       {kernels::vendor_workspace(options).n / size_of(Type::f32).n})
             .drop();
         bench.leave_out_next_wait();
         const auto product = kernels::make_vendor_table(std::move(own), *bench.device, options);
         bench.multiply(*product);
       }},
      {"write_after_write",
       [](Bench& bench) {
         bench.write(*bench.on_a, bench.x);
         bench.write(*bench.on_b, bench.x);
       }},
      {"host_read",
       [](Bench& bench) {
         bench.write(*bench.on_a, bench.x);
         std::printf("%g\n", static_cast<double>(HostView<float>(bench.x.all())[0]));
       }},
      {"host_write",
       [](Bench& bench) {
         bench.read(*bench.on_a, bench.x, bench.y);
         write_from_host<float>(bench.x.all(), std::vector<float>(static_cast<size_t>(kLength.n)));
       }},
      {"drop",
       [](Bench& bench) {
         bench.write(*bench.on_a, bench.x);
         bench.x.drop();
       }},
      // Which may be the same memory, once the pool has it back.
      {"other_memory_after_a_drop",
       [](Bench& bench) {
         const auto on_a = bench.table_on_own_a();
         bench.write(*on_a, bench.x);
         bench.x.drop();
         bench.leave_out_next_wait();
         const Buffer shorter = bench.device->acquire(Category::activations, Type::f32, {kLength.n / 2});
         bench.write(*bench.on_b, shorter);
       }},
      // Which it fills once more, for whoever reads it in vain.
      {"device_ends_after_a_drop",
       [](Bench& bench) {
         auto other = make_cuda_device(0, Fill::nan);
         other->acquire(Category::activations, Type::f32, kLength).drop();
         bench.leave_out_next_wait();
         other.reset();
       }},
      {"send",
       [](Bench& bench) {
         bench.write(*bench.on_a, bench.x);
         const auto request = bench.link->send(0, {}, bench.bytes(bench.x));
         Bench::complete(*request);
       }},
      {"receive",
       [](Bench& bench) {
         for (const Buffer* into : {&bench.x, &bench.y}) {
           const auto request = bench.link->receive(0, {}, bench.bytes(*into));
           Bench::complete(*request);
         }
       }},
      {"aware_send",
       [](Bench& bench) {
         bench.write(*bench.on_a, bench.x);
         const auto request = bench.aware->send(0, {}, bench.bytes(bench.x));
         Bench::complete(*request);
       }},
      {"aware_receive",
       [](Bench& bench) {
         bench.write(*bench.on_a, bench.x);
         bench.finish();
         bench.read(*bench.on_a, bench.x, bench.y);
         const auto request = bench.aware->receive(0, {}, bench.bytes(bench.x));
         Bench::complete(*request);
         bench.read(*bench.on_a, bench.x, bench.y);
       }},
  };
  return list;
}

}  // namespace
}  // namespace zp

int main(int count, char** words) {
  const std::string use = count > 1 ? words[1] : "";
  if (!zp::uses().contains(use)) return 2;
  zp::Bench bench(count > 2);
  zp::uses().at(use)(bench);
  bench.finish();
  return 0;
}
