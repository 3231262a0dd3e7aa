// carried_order_program [USE [needed | without NUMBER…]] (sweep.hpp): two ranks with a GPU each, emulated,
// whose buffers are used by kernels, by the host and by collectives that NCCL carries. The waits are those of
// rank 0, of a use and of how it ends. carried_order_program USE forget, of a use that is not listed: a call
// of NCCL is taken for done before its work is on the stream. For the thread sanitizer, which reports what
// nothing orders.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "correctness/emulated_backend/sweep.hpp"
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
  Bench(Endpoint& endpoint, Algorithm by)
      : control(*endpoint.control),
        algorithm(by),
        device(make_cuda_device(endpoint.link->rank(), Fill::nan)),
        compute(kernels::make_ordered_table(
            kernels::make_cuda_table(*device, {.stream = compute_stream->handle()}), *compute_stream)),
        additions(kernels::make_ordered_table(
            kernels::make_cuda_table(*device, {.stream = transport_stream->handle()}), *transport_stream)),
        carrier(make_nccl_carrier(watched_functions(), *device, *transport_stream, control, kTimeout_s)),
        transport(make_transport()) {}

  std::unique_ptr<Transport> make_transport() {
    return make_carried(*carrier, *device, *additions, control,
                        {.algorithm = algorithm,
                         .places = Places::in_rank_order(kWorld),
                         .timeout_s = kTimeout_s,
                         .stream = transport_stream.get()});
  }
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
  // All but the tables, the streams and the carrier.
  void end() {
    for (Buffer* buffer : {&integers, &other, &mine, &y, &x}) buffer->drop();
    transport.reset();
  }

  Control& control;
  Algorithm algorithm;
  Cuts cuts = Cuts::equal(kWorld, kSlice);
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<CudaStream> compute_stream = device->make_stream();
  std::unique_ptr<CudaStream> transport_stream = device->make_stream();
  Buffer x = device->acquire(Category::activations, Type::f32, cuts.whole());
  Buffer y = device->acquire(Category::activations, Type::f32, cuts.whole());
  Buffer mine = device->acquire(Category::activations, Type::f32, kSlice);
  Buffer other = device->acquire(Category::activations, Type::f32, kSlice);
  Buffer integers = device->acquire(Category::activations, Type::i64, cuts.whole());
  std::unique_ptr<kernels::Table> compute, additions;
  std::unique_ptr<Carrier> carrier;
  std::unique_ptr<Transport> transport;
};

// Of what kernels wrote, into what they read.
void reduce_and_gather(Bench& bench) {
  bench.write(bench.x);
  bench.reduce();
  bench.write(bench.x);
  bench.gather(bench.mine.all());
  bench.read(bench.x, bench.y);
  bench.sum();
  bench.read(bench.x, bench.y);
}

struct Use {
  void (*run)(Bench&);
  Algorithm algorithm = Algorithm::direct;
  bool of_calls = false;  // until a call has done its part: no waits of CUDA's
};

const std::map<std::string, Use>& uses() {
  static const std::map<std::string, Use> list{
      {"collectives_by_ring", {reduce_and_gather, Algorithm::ring}},
      {"collectives_of_the_library", {reduce_and_gather, Algorithm::native}},
      {"sum_of_what_kernels_wrote", {[](Bench& bench) {
         bench.write(bench.x);
         bench.reduce();
       }}},
      {"gather_over_what_kernels_read", {[](Bench& bench) {
         bench.read(bench.x, bench.y);
         bench.gather();
       }}},
      {"gather_of_a_slice_that_kernels_wrote", {[](Bench& bench) {
         bench.write(bench.mine);
         bench.gather(bench.mine.all());
       }}},
      {"kernels_read_a_sum", {[](Bench& bench) {
         bench.reduce();
         bench.read(bench.mine, bench.other);
       }}},
      {"kernels_read_what_was_gathered", {[](Bench& bench) {
         bench.gather(bench.mine.all());
         bench.read(bench.x, bench.y);
       }}},
      {"kernels_write_where_a_gather_wrote", {[](Bench& bench) {
         bench.gather();
         bench.write(bench.x);
       }}},
      {"kernels_write_a_slice_that_a_gather_read", {[](Bench& bench) {
         bench.gather(bench.mine.all());
         bench.write(bench.mine);
       }}},
      {"the_host_reads_what_was_gathered", {[](Bench& bench) {
         bench.gather();
         std::fprintf(stderr, "%g\n", static_cast<double>(HostView<float>(bench.x.all())[0]));
       }}},
      {"a_gathered_buffer_ends", {[](Bench& bench) {
         bench.gather();
         bench.x.drop();
       }}},
      {"a_transport_ends_whose_pieces_are_added", {[](Bench& bench) {
         bench.reduce();
         bench.transport.reset();
       }}},
      {"a_transport_is_made_of_memory_given_back", {[](Bench& bench) {
         bench.transport.reset();
         bench.transport = bench.make_transport();
         bench.reduce();
       }}},
      {"sum_of_integers_that_kernels_wrote", {[](Bench& bench) {
         bench.rewrite(bench.integers);
         bench.sum({}, bench.integers.all());
       }}},
      {"kernels_read_what_sums_of_integers_became", {[](Bench& bench) {
         bench.sum({}, bench.integers.all());
         bench.read(bench.x, bench.y);
       }}},
      {"kernels_write_an_image_that_was_summed", {[](Bench& bench) {
         bench.write(bench.x);
         bench.sum({.image = bench.integers.all()});
         bench.rewrite(bench.integers);
       }}},
      {"sum_over_an_image_that_kernels_wrote", {[](Bench& bench) {
         bench.write(bench.x);
         bench.rewrite(bench.integers);
         bench.reduce({.image = bench.integers.all()});
       }}},
      {"kernels_read_after_a_group_of_calls",
       {[](Bench& bench) {
          bench.gather();
          bench.read_what_was_called_for();
        },
        Algorithm::direct, true}},
      {"kernels_read_after_a_gather_by_nccl",
       {[](Bench& bench) {
          bench.gather();
          bench.read_what_was_called_for();
        },
        Algorithm::native, true}},
      {"kernels_read_after_a_sum_by_nccl",
       {[](Bench& bench) {
          bench.sum();
          bench.read_what_was_called_for();
        },
        Algorithm::native, true}},
      {"kernels_read_after_slices_of_a_sum_by_nccl",
       {[](Bench& bench) {
          bench.reduce();
          bench.read_what_was_called_for();
        },
        Algorithm::native, true}},
  };
  return list;
}

}  // namespace
}  // namespace zp

int main(int count, char** words) {
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0);  // as the backend does
  const zp::Sweep sweep(count, words);
  if (sweep.use().empty()) {
    for (const auto& [name, use] : zp::uses()) {
      if (!use.of_calls) std::puts(name.c_str());
    }
    return 0;
  }
  if (!zp::uses().contains(sweep.use())) return 2;
  const zp::Use& use = zp::uses().at(sweep.use());
  zp::transport_named("nccl").run(zp::kWorld, zp::kTimeout_s, [&](zp::Endpoint& endpoint) {
    const bool first = endpoint.link->rank() == 0;
    zp::Bench bench(endpoint, use.algorithm);
    zp::hasty = sweep.how() == "forget";
    if (first) sweep.watch();
    use.run(bench);
    bench.end();
    if (first) sweep.watch_no_more();
    zp::hasty = false;
    endpoint.control->barrier();
    if (first) sweep.print_needed();
  });
  return 0;
}
