// carried_order_program USE [forget]: two ranks with a GPU each, emulated, whose buffers are used by kernels,
// by the host and by collectives that NCCL carries; with "forget" the one wait that the use needs is left
// out. For the thread sanitizer, which reports what nothing orders.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "harness/device/cuda_device.hpp"
#include "harness/device/host_access.hpp"
#include "harness/transport/carrier.hpp"
#include "harness/transport/nccl_functions.hpp"
#include "kernels/access.hpp"
#include "kernels/cuda/cuda_table.hpp"

namespace zp {
namespace {

constexpr int kWorld = 2;
constexpr Elements kSlice{1000};
constexpr double kTimeout_s = 60.0;

enum class Forget {
  nothing,
  transport_waits,  // for whoever used a buffer before
  marks,            // of the transport, by which others wait for it
  settling,         // of a call of NCCL, before which its work is not on the stream
};

// The transport's stream without some of its waits.
class Forgetful final : public Stream {
 public:
  Forgetful(Stream& inner, const Stream& other, Forget forget)
      : inner_(inner), other_(other), forget_(forget) {}

  // Nobody has to wait for it: it seems to be the other stream's work, and over.
  class Forgotten final : public Mark {
   public:
    explicit Forgotten(const Stream& of) : of_(of) {}
    void wait() override {}
    bool done() override { return true; }
    const Stream* stream() const override { return &of_; }

   private:
    const Stream& of_;
  };

  std::shared_ptr<Mark> mark() override {
    if (forget_ == Forget::marks) return std::make_shared<Forgotten>(other_);
    return inner_.mark();
  }
  void run_after(const Pending& pending) override {
    if (forget_ != Forget::transport_waits) inner_.run_after(pending);
  }
  void copy(const View& from, const View& to) override { inner_.copy(from, to); }
  void to_pinned(std::span<const std::byte> from, std::byte* to) override { inner_.to_pinned(from, to); }
  void from_pinned(const std::byte* from, std::span<std::byte> to) override { inner_.from_pinned(from, to); }

 private:
  Stream& inner_;
  const Stream& other_;
  Forget forget_;
};

// ---- A call of NCCL that is taken for done at once, and is done later

thread_local ncclComm_t joined = nullptr;
thread_local bool hasty = false;

ncclResult_t join(ncclComm_t* comm, int world, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const ncclResult_t result = nccl_functions().init_rank(comm, world, id, rank, config);
  joined = *comm;
  return result;
}
ncclResult_t state_of(ncclComm_t comm, ncclResult_t* state) {
  if (!hasty) return nccl_functions().get_async_error(comm, state);
  *state = ncclSuccess;
  return ncclSuccess;
}
const NcclFunctions& watched_functions() {
  static const NcclFunctions functions = [] {
    NcclFunctions changed = nccl_functions();
    changed.init_rank = join;
    changed.get_async_error = state_of;
    return changed;
  }();
  return functions;
}

struct Bench {
  Bench(Endpoint& endpoint, Algorithm algorithm, Forget forget)
      : device(make_cuda_device(endpoint.link->rank(), Fill::nan)),
        forgetful(*transport_stream, *compute_stream, forget),
        compute(kernels::make_ordered_table(
            kernels::make_cuda_table(*device, {.stream = compute_stream->handle()}), *compute_stream)),
        additions(kernels::make_ordered_table(
            kernels::make_cuda_table(*device, {.stream = transport_stream->handle()}), *transport_stream)),
        carrier(make_nccl_carrier(watched_functions(), *device, *transport_stream, *endpoint.control,
                                  kTimeout_s)),
        transport(make_carried(*carrier, *device, *additions, *endpoint.control,
                               {.algorithm = algorithm,
                                .places = Places::in_rank_order(kWorld),
                                .timeout_s = kTimeout_s,
                                .stream = &forgetful})) {
    hasty = forget == Forget::settling;
  }
  ~Bench() { hasty = false; }

  void write(const Buffer& to) { compute->run(kernels::Initialize{.x = to.all(), .init = Init::ones}); }
  void read(const Buffer& from, const Buffer& to) {
    compute->run(kernels::GeluForward{.x = from.all(), .y = to.all()});
  }
  void rewrite(const Buffer& integers) {
    compute->run(kernels::Fold{.inputs = {integers.all()}, .out = integers.all()});
  }
  // What a call of NCCL works on. Should it have come to no stream yet, it does so now.
  void read_what_was_called_for() {
    read(x, y);
    ncclResult_t state = ncclSuccess;
    nccl_functions().get_async_error(joined, &state);
  }
  void gather(const View& mine) {
    transport->all_gather({.mine = mine, .whole = x.all(), .cuts = cuts, .label = {}});
  }
  void gather() { gather(x.part(cuts.of(transport->place()))); }
  void reduce(const FixedPoint& fixed = {}) {
    transport->reduce_scatter(
        {.whole = x.all(), .mine = mine.all(), .cuts = cuts, .label = {}, .fixed = fixed});
  }
  void sum(const FixedPoint& fixed = {}, const View& sums = {}) {
    transport->all_reduce({.whole = x.all(), .cuts = cuts, .label = {}, .fixed = fixed, .sums = sums});
  }
  void finish() {
    compute_stream->finish();
    transport_stream->finish();
  }

  Cuts cuts = Cuts::equal(kWorld, kSlice);
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<CudaStream> compute_stream = device->make_stream();
  std::unique_ptr<CudaStream> transport_stream = device->make_stream();
  Forgetful forgetful;
  Buffer x = device->acquire(Category::activations, Type::f32, cuts.whole());
  Buffer y = device->acquire(Category::activations, Type::f32, cuts.whole());
  Buffer mine = device->acquire(Category::activations, Type::f32, kSlice);
  Buffer other = device->acquire(Category::activations, Type::f32, kSlice);
  Buffer integers = device->acquire(Category::activations, Type::i64, cuts.whole());
  std::unique_ptr<kernels::Table> compute, additions;
  std::unique_ptr<Carrier> carrier;
  std::unique_ptr<Transport> transport;
  bool given_up = false;  // and with the transport what its stream does
};

struct Use {
  Forget needs;  // what the use cannot do without
  void (*run)(Bench&);
  Algorithm algorithm = Algorithm::direct;
};

const std::map<std::string, Use>& uses() {
  static const std::map<std::string, Use> list{
      {"sum_of_what_kernels_wrote",
       {Forget::transport_waits,
        [](Bench& bench) {
          bench.write(bench.x);
          bench.reduce();
        }}},
      {"gather_over_what_kernels_read",
       {Forget::transport_waits,
        [](Bench& bench) {
          bench.write(bench.x);
          bench.finish();
          bench.read(bench.x, bench.y);
          bench.gather();
        }}},
      {"gather_of_a_slice_that_kernels_wrote",
       {Forget::transport_waits,
        [](Bench& bench) {
          bench.write(bench.mine);
          bench.gather(bench.mine.all());
        }}},
      {"kernels_read_a_sum",
       {Forget::marks,
        [](Bench& bench) {
          bench.reduce();
          bench.read(bench.mine, bench.other);
        }}},
      {"kernels_read_what_was_gathered",
       {Forget::marks,
        [](Bench& bench) {
          bench.gather(bench.mine.all());
          bench.read(bench.x, bench.y);
        }}},
      {"kernels_write_where_a_gather_wrote",
       {Forget::marks,
        [](Bench& bench) {
          bench.gather();
          bench.write(bench.x);
        }}},
      {"kernels_write_a_slice_that_a_gather_read",
       {Forget::marks,
        [](Bench& bench) {
          bench.gather(bench.mine.all());
          bench.write(bench.mine);
        }}},
      {"the_host_reads_what_was_gathered",
       {Forget::marks,
        [](Bench& bench) {
          bench.gather();
          std::printf("%g\n", static_cast<double>(HostView<float>(bench.x.all())[0]));
        }}},
      {"a_gathered_buffer_ends",
       {Forget::marks,
        [](Bench& bench) {
          bench.gather();
          bench.x.drop();
        }}},
      {"a_transport_ends_whose_pieces_are_added",
       {Forget::marks,
        [](Bench& bench) {
          bench.reduce();
          bench.transport.reset();
        }}},
      {"a_transport_ends_while_an_error_passes",
       {Forget::marks,
        [](Bench& bench) {
          bench.reduce();
          try {
            const auto ending = std::move(bench.transport);
            fail(Exit::internal, "an error passes");
          } catch (const Error&) {
            bench.given_up = true;
          }
        }}},
      {"sum_of_integers_that_kernels_wrote",
       {Forget::transport_waits,
        [](Bench& bench) {
          bench.rewrite(bench.integers);
          bench.sum({}, bench.integers.all());
        }}},
      {"kernels_read_what_sums_of_integers_became",
       {Forget::marks,
        [](Bench& bench) {
          bench.sum({}, bench.integers.all());
          bench.read(bench.x, bench.y);
        }}},
      {"kernels_write_an_image_that_was_summed",
       {Forget::marks,
        [](Bench& bench) {
          bench.write(bench.x);
          bench.sum({.image = bench.integers.all()});
          bench.rewrite(bench.integers);
        }}},
      {"sum_over_an_image_that_kernels_wrote",
       {Forget::transport_waits,
        [](Bench& bench) {
          bench.write(bench.x);
          bench.rewrite(bench.integers);
          bench.reduce({.image = bench.integers.all()});
        }}},
      {"kernels_read_after_a_group_of_calls",
       {Forget::settling,
        [](Bench& bench) {
          bench.gather();
          bench.read_what_was_called_for();
        }}},
      {"kernels_read_after_a_gather_by_nccl",
       {Forget::settling,
        [](Bench& bench) {
          bench.gather();
          bench.read_what_was_called_for();
        },
        Algorithm::native}},
      {"kernels_read_after_a_sum_by_nccl",
       {Forget::settling,
        [](Bench& bench) {
          bench.sum();
          bench.read_what_was_called_for();
        },
        Algorithm::native}},
      {"kernels_read_after_slices_of_a_sum_by_nccl",
       {Forget::settling,
        [](Bench& bench) {
          bench.reduce();
          bench.read_what_was_called_for();
        },
        Algorithm::native}},
  };
  return list;
}

}  // namespace
}  // namespace zp

int main(int count, char** words) {
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0);  // as the backend does
  const std::string name = count > 1 ? words[1] : "";
  if (!zp::uses().contains(name)) return 2;
  const zp::Use& use = zp::uses().at(name);
  zp::transport_named("nccl").run(zp::kWorld, zp::kTimeout_s, [&](zp::Endpoint& endpoint) {
    zp::Bench bench(endpoint, use.algorithm, count > 2 ? use.needs : zp::Forget::nothing);
    use.run(bench);
    if (!bench.given_up) bench.finish();
    endpoint.control->barrier();
  });
  return 0;
}
