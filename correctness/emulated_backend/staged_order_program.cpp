// staged_order_program [USE [needed | without NUMBER…]] (sweep.hpp): a rank with two streams on an emulated
// GPU, whose buffers are used by kernels, by the host and by collectives, over messages that are staged or,
// in some uses, handed on where they lie. The waits are those of a use and of how it ends. For the thread
// sanitizer, which reports what nothing orders.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "correctness/cuda_emulator/arena.hpp"
#include "correctness/cuda_emulator/waits.hpp"
#include "correctness/emulated_backend/sweep.hpp"
#include "harness/device/cuda_device.hpp"
#include "harness/device/host_access.hpp"
#include "harness/transport/aware.hpp"
#include "harness/transport/staged.hpp"
#include "kernels/access.hpp"
#include "kernels/cuda/cuda_table.hpp"
#include "kernels/norm.hpp"

namespace zp {
namespace {

constexpr int kWorld = 3;
constexpr Elements kSlice{1000};
constexpr double kTimeout_s = 60.0;
constexpr int64_t kAttentionRows = 8;
constexpr int64_t kTooMany = int64_t{1} << 20;  // numbers of 1 in a sum of fixed point

// All other ranks. Messages to them are read when they are sent; those from them come when they have been
// asked for often enough. Reaches the memory of a device by itself, as a GPU-aware MPI.
class Peers final : public Link {
 public:
  int rank() const override { return 0; }
  int world() const override { return kWorld; }
  std::unique_ptr<Request> send(int, const Tag&, std::span<const std::byte> bytes) override {
    const emulated::DeviceAccess open;
    emulated::host_touches_memory();
    read_.assign(bytes.begin(), bytes.end());
    return std::make_unique<Sent>();
  }
  std::unique_ptr<Request> receive(int, const Tag&, std::span<std::byte> bytes) override {
    return std::make_unique<Coming>(*this, bytes);
  }

  int refusals = 0;  // that a message is there; each is told once
  bool failed = false;

 private:
  class Sent final : public Request {
   public:
    bool done() override { return true; }
  };
  class Coming final : public Request {
   public:
    Coming(Peers& peers, std::span<std::byte> into) : peers_(peers), into_(into) {}
    bool done() override {
      if (peers_.failed) throw Error(Exit::transport, "the peers are gone");
      if (peers_.refusals > 0) return --peers_.refusals, false;
      const emulated::DeviceAccess open;
      emulated::host_touches_memory();
      std::memset(into_.data(), 1, into_.size());
      return true;
    }

   private:
    Peers& peers_;
    std::span<std::byte> into_;
  };

  std::vector<std::byte> read_;
};

struct Bench {
  Bench(CudaDevice& gpu, Route way, Algorithm by) : device(&gpu), route(way), algorithm(by) {}

  void write(const View& to) { compute->run(kernels::Initialize{.x = to, .init = Init::ones}); }
  void read(const View& from) {
    compute->run(kernels::GeluForward{.x = from, .y = copy.part({{0}, from.length()})});
  }
  void rewrite(const Buffer& integers) {
    compute->run(kernels::Fold{.inputs = {integers.all()}, .out = integers.all()});
  }
  Handle reduce(const Cuts& by) {
    return transport->reduce_scatter(
        {.whole = whole.all(), .mine = mine.part(part(by)), .cuts = by, .label = {}});
  }
  Handle reduce() { return reduce(cuts); }
  void sum(const FixedPoint& fixed, const View& sums) {
    transport->all_reduce(
        {.whole = whole.all(), .cuts = cuts, .divisor = 3.0F, .label = {}, .fixed = fixed, .sums = sums});
  }
  Handle gather(const View& from) {
    return transport->all_gather({.mine = from, .whole = whole.all(), .cuts = cuts, .label = {}});
  }
  static Range part(const Cuts& by) { return by.within.empty() ? Range{{0}, kSlice} : by.within; }
  std::span<std::byte> message() const {
    const View view = whole.part({{0}, kSlice});
    return {static_cast<std::byte*>(view.raw()), static_cast<size_t>(view.bytes().n)};
  }
  kernels::AttentionBackward attention_backward() const {
    constexpr int64_t kRows = kAttentionRows, kWidth = 4;
    const auto first = [](const Buffer& of, int64_t length) { return of.part({{0}, {length}}); };
    return {.qkv = first(whole, 3 * kRows * kWidth),
            .row_max = first(mine, kRows),
            .row_sum = first(mine, kRows),
            .dout = first(whole, kRows * kWidth),
            .dqkv = first(copy, 3 * kRows * kWidth),
            .batch = 1,
            .sequence = kRows,
            .width = kWidth,
            .heads = 1};
  }
  // All but the tables and what they use, which end in uses of their own.
  void end() {
    for (Buffer* buffer : {&image, &mine, &copy, &whole}) buffer->drop();
    transport.reset();
  }
  std::unique_ptr<Transport> make_transport() {
    return make_collectives(*link, *device, *additions,
                            {.algorithm = algorithm,
                             .places = Places::in_rank_order(kWorld),
                             .timeout_s = kTimeout_s,
                             .stream = transport_stream.get()});
  }
  Buffer acquire(Type type, Elements length) { return device->acquire(Category::activations, type, length); }

  Cuts cuts = Cuts::equal(kWorld, kSlice);
  CudaDevice* device;
  Route route;
  Algorithm algorithm;
  std::unique_ptr<CudaStream> compute_stream = device->make_stream();
  std::unique_ptr<CudaStream> transport_stream = device->make_stream();
  Peers peers;
  std::unique_ptr<Link> link = route == Route::gpu_aware
                                   ? make_aware_link(peers, *transport_stream)
                                   : make_staged_link(peers, *device->far_memory(), *transport_stream);
  std::unique_ptr<kernels::Table> compute = kernels::make_ordered_table(
      kernels::make_cuda_table(
          *device, {.stream = compute_stream->handle(), .finish = [this] { compute_stream->finish(); }}),
      *compute_stream);
  std::unique_ptr<kernels::Table> additions = kernels::make_ordered_table(
      kernels::make_cuda_table(
          *device, {.stream = transport_stream->handle(), .finish = [this] { transport_stream->finish(); }}),
      *transport_stream);
  std::unique_ptr<Transport> transport = make_transport();
  Buffer whole = acquire(Type::f32, cuts.whole()), copy = acquire(Type::f32, cuts.whole());
  Buffer mine = acquire(Type::f32, kSlice), image = acquire(Type::i64, cuts.whole());
};

// Keeps a copy of what it is given, in memory of its own for which it does not wait.
class Keeper final : public kernels::Table {
 public:
  Keeper(Device& device, Stream& stream)
      : stream_(stream), kept_(device.acquire(Category::workspace, Type::f32, kSlice)) {}
  void run(const kernels::Call& call) override {
    stream_.copy(std::get<kernels::SquareSum>(call).grads, kept_.all());
  }

 private:
  Stream& stream_;
  Buffer kept_;
};

// Of what kernels wrote, into what they read.
void reduce_and_gather(Bench& bench) {
  bench.write(bench.whole.all());
  bench.reduce();
  bench.write(bench.whole.all());
  bench.gather(bench.mine.all());
  bench.read(bench.whole.all());
}

struct Use {
  void (*run)(Bench&);
  Route route = Route::staged;
  Algorithm algorithm = Algorithm::direct;
};

const std::map<std::string, Use>& uses() {
  static const std::map<std::string, Use> list{
      {"collectives_by_ring", {reduce_and_gather, Route::staged, Algorithm::ring}},
      {"collectives_of_aware_messages", {reduce_and_gather, Route::gpu_aware}},
      {"collectives_of_aware_messages_by_ring", {reduce_and_gather, Route::gpu_aware, Algorithm::ring}},
      {"sum_of_what_kernels_wrote", {[](Bench& bench) {
         bench.write(bench.whole.all());
         bench.reduce();
         bench.read(bench.mine.all());
       }}},
      {"sum_that_comes_late", {[](Bench& bench) {
         bench.write(bench.whole.all());
         bench.peers.refusals = 5;
         bench.reduce();
         bench.write(bench.mine.all());
         bench.write(bench.whole.all());
       }}},
      {"sum_in_fixed_point", {[](Bench& bench) {
         bench.write(bench.whole.all());
         bench.sum({.image = bench.image.all(), .terms = 8}, {});
         bench.rewrite(bench.image);
       }}},
      {"slices_of_a_sum_in_fixed_point", {[](Bench& bench) {
         bench.write(bench.whole.all());
         bench.rewrite(bench.image);
         bench.transport->reduce_scatter({.whole = bench.whole.all(),
                                          .mine = bench.mine.all(),
                                          .cuts = bench.cuts,
                                          .label = {},
                                          .fixed = {.image = bench.image.all(), .terms = 8}});
         bench.rewrite(bench.image);
       }}},
      {"sum_of_integers", {[](Bench& bench) {
         bench.rewrite(bench.image);
         bench.sum({}, bench.image.all());
         bench.read(bench.whole.all());
         bench.whole.drop();  // first: messages of the whole tell the host that the integers were summed
       }}},
      {"host_holds_what_is_refused", {[](Bench& bench) {
         bench.write(bench.whole.all());
         try {
           bench.compute->run(
               kernels::ToFixed{.from = bench.whole.all(), .to = bench.image.all(), .terms = kTooMany});
         } catch (const Error&) {
           std::fputs("refused\n", stderr);
         }
       }}},
      {"sums_of_buckets", {[](Bench& bench) {
         bench.write(bench.whole.all());
         bench.peers.refusals = 5;
         Cuts first = bench.cuts, second = bench.cuts;
         first.within = {{0}, {300}};
         second.within = {{300}, kSlice};
         Handle one = bench.reduce(first), other = bench.reduce(second);
         one.wait();
         bench.read(bench.mine.part(first.within));
         bench.write(bench.whole.all());
       }}},
      {"gather_of_what_kernels_wrote", {[](Bench& bench) {
         bench.write(bench.mine.all());
         bench.gather(bench.mine.all());
         bench.write(bench.mine.all());
         bench.read(bench.whole.all());
       }}},
      {"gather_over_what_kernels_read", {[](Bench& bench) {
         bench.read(bench.whole.all());
         bench.gather(bench.whole.part(bench.cuts.of(0)));
         std::fprintf(stderr, "%g\n", static_cast<double>(HostView<float>(bench.whole.all())[0]));
       }}},
      {"slots_are_used_again", {[](Bench& bench) {
         for (int i = 0; i < 3; ++i) bench.gather(bench.mine.all());
       }}},
      {"host_writes_what_was_gathered", {[](Bench& bench) {
         bench.gather(bench.mine.all());
         write_from_host<float>(bench.mine.all(), std::vector<float>(static_cast<size_t>(kSlice.n)));
         bench.read(bench.mine.all());
       }}},
      {"buffers_end_before_a_collective", {[](Bench& bench) {
         bench.write(bench.whole.all());
         bench.peers.refusals = 5;
         const Handle outstanding = bench.reduce();
         bench.whole.drop();
         bench.mine.drop();
       }}},
      {"transport_ends_before_a_collective", {[](Bench& bench) {
         bench.write(bench.whole.all());
         bench.peers.refusals = 1000;
         const Handle outstanding = bench.reduce();
         bench.transport.reset();
       }}},
      {"buffers_end_after_a_failure", {[](Bench& bench) {
         bench.write(bench.whole.all());
         bench.peers.failed = true;
         try {
           bench.gather(bench.mine.all());
         } catch (const Error&) {
           std::fputs("failed\n", stderr);
         }
         bench.whole.drop();
         bench.mine.drop();
       }}},
      {"buffers_are_read_in_vain_after_a_failure", {[](Bench& bench) {
         bench.write(bench.whole.all());
         bench.peers.failed = true;
         for (const auto& use : {+[](Bench& of) { of.gather(of.mine.all()); },
                                 +[](Bench& of) { HostView<float>(of.whole.all()); }}) {
           try {
             use(bench);
           } catch (const Error&) {
             std::fputs("failed\n", stderr);
           }
         }
         bench.whole.drop();
       }}},
      {"collective_fails_while_the_host_waits", {[](Bench& bench) {
         bench.write(bench.whole.all());
         bench.peers.refusals = 5;
         const Handle outstanding = bench.gather(bench.mine.all());
         bench.peers.failed = true;
         try {
           std::fprintf(stderr, "%g\n", static_cast<double>(HostView<float>(bench.whole.all())[0]));
         } catch (const Error&) {
           std::fputs("failed\n", stderr);
         }
         bench.whole.drop();
       }}},
      {"link_ends_before_its_copies", {[](Bench& bench) {
         const auto link =
             make_staged_link(bench.peers, *bench.device->far_memory(), *bench.transport_stream);
         const auto received = link->receive(1, {}, bench.message());
         while (!received->done()) continue;
         link->send(1, {}, bench.message());
       }}},
      {"memory_is_used_at_once", {[](Bench& bench) {
         const Buffer fresh = bench.acquire(Type::f32, kSlice);
         bench.write(fresh.all());
       }}},
      {"memory_is_used_again_by_another_stream", {[](Bench& bench) {
         Buffer first = bench.acquire(Type::f32, bench.cuts.whole());
         bench.read(first.all());
         first.drop();
         bench.whole = bench.acquire(Type::f32, bench.cuts.whole());
         bench.gather(bench.mine.all());
         bench.read(bench.whole.all());
       }}},
      {"memory_of_a_collective_is_used_again", {[](Bench& bench) {
         bench.gather(bench.mine.all()).wait();
         bench.whole.drop();
         const Buffer again = bench.acquire(Type::f32, bench.cuts.whole());
         bench.read(again.all());
       }}},
      {"transport_is_made_of_memory_given_back", {[](Bench& bench) {
         bench.transport.reset();
         bench.transport = bench.make_transport();
         bench.reduce();
       }}},
      {"table_is_made_of_memory_given_back", {[](Bench& bench) {
         const kernels::CudaTableOptions options{.stream = bench.compute_stream->handle()};
         bench.acquire(Type::f32, {kernels::cuda_workspace(options).n / size_of(Type::f32).n}).drop();
         const auto table = kernels::make_cuda_table(*bench.device, options);
       }}},
      {"stream_ends_before_its_work", {[](Bench& bench) {
         auto stream = bench.device->make_stream();
         stream->copy(bench.whole.all(), bench.copy.all());
         stream.reset();
         bench.copy.drop();
       }}},
      {"transport_ends_before_its_additions", {[](Bench& bench) {
         bench.reduce();
         bench.transport.reset();
       }}},
      {"table_ends_before_its_work", {[](Bench& bench) {
         const auto table = kernels::make_cuda_table(
             *bench.device, {.stream = bench.compute_stream->handle(), .max_attention_rows = kAttentionRows});
         table->run(bench.attention_backward());
       }}},
      {"memory_of_an_ordered_table_ends_before_its_work", {[](Bench& bench) {
         const auto table = kernels::make_ordered_table(
             std::make_unique<Keeper>(*bench.device, *bench.compute_stream), *bench.compute_stream);
         table->run(kernels::SquareSum{.grads = bench.mine.all()});
       }}},
      {"host_holds_a_sum", {[](Bench& bench) {
         ExactSum sum;
         bench.write(bench.whole.all());
         bench.compute->run(kernels::SquareSum{.grads = bench.whole.all(), .sum = &sum});
         std::fprintf(stderr, "%g\n", sum.value());
       }}},
  };
  return list;
}

}  // namespace
}  // namespace zp

int main(int count, char** words) {
  const zp::Sweep sweep(count, words);
  if (sweep.use().empty()) {
    for (const auto& [name, use] : zp::uses()) std::puts(name.c_str());
    return 0;
  }
  if (!zp::uses().contains(sweep.use())) return 2;
  const zp::Use& use = zp::uses().at(sweep.use());
  const auto device = zp::make_cuda_device(0, zp::Fill::nan);
  {
    zp::Bench bench(*device, use.route, use.algorithm);
    sweep.watch();
    try {
      use.run(bench);
    } catch (const zp::Error&) {
      if (!sweep.leaves_out()) throw;
      std::fputs("failed\n", stderr);  // as it may where what the host reads is not there yet
    }
    bench.end();
    sweep.watch_no_more();
  }
  sweep.print_needed();
  return 0;
}
