// One rank's rig for the transport tests, whose messages are NCCL's and whose additions run on a GPU, both
// emulated: in rig.hpp's stead (ZP_TEST_RIG), so that what is promised of every transport is tried on this
// one too. The host reads the device's memory where it lies, which the emulator allows without its guard.
#pragma once

#include "correctness/cuda_emulator/settings.hpp"
#include "correctness/transport/plain.hpp"
#include "harness/device/cuda_device.hpp"
#include "harness/transport/carrier.hpp"
#include "harness/transport/nccl.hpp"
#include "kernels/access.hpp"
#include "kernels/cuda/cuda_table.hpp"

namespace zp {

// A device's memory as if it were the host's.
class NearDevice final : public Device {
 public:
  explicit NearDevice(Device& inner) : inner_(inner) {}
  void* allocate(Category category, Bytes bytes) override {
    void* data = inner_.allocate(category, bytes);
    if (const auto readying = inner_.far_memory()->readying()) readying->wait();
    return data;
  }
  void release(Category category, void* data, Bytes bytes) noexcept override {
    inner_.release(category, data, bytes);
  }
  FarMemory* far_memory() override { return nullptr; }

 private:
  Device& inner_;
};

// Counts what plain::FoldOnly counts.
class CountingTable final : public kernels::Table {
 public:
  explicit CountingTable(std::unique_ptr<kernels::Table> inner) : inner_(std::move(inner)) {}
  void run(const kernels::Call& call) override {
    if (const auto* fold = std::get_if<kernels::Fold>(&call)) {
      ++calls;
      elements += std::max<int64_t>(1, std::ssize(fold->inputs) - 1) * fold->out.length().n;
    } else {
      converted += std::get<kernels::ToFixed>(call).from.length().n;
    }
    inner_->run(call);
  }

  int64_t calls = 0, elements = 0;  // of folds
  int64_t converted = 0;

 private:
  std::unique_ptr<kernels::Table> inner_;
};

// Counts messages by rank, as they are put.
class CountingCarrier final : public Carrier {
 public:
  explicit CountingCarrier(std::unique_ptr<Carrier> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int world() const override { return inner_->world(); }
  void exchange(Purpose purpose, std::span<const Message> out, std::span<const Message> in) override {
    for (const Message& message : out) {
      sent[message.peer].messages += 1;
      sent[message.peer].bytes += std::ssize(message.bytes);
    }
    inner_->exchange(purpose, out, in);
  }
  void reduce_scatter(const View& data) override { inner_->reduce_scatter(data); }
  void all_reduce(const View& data) override { inner_->all_reduce(data); }
  void all_gather(const View& data) override { inner_->all_gather(data); }
  void check() override { inner_->check(); }
  void abort(const Error& reason) noexcept override { inner_->abort(reason); }
  void set_lookout(Lookout* lookout) override { inner_->set_lookout(lookout); }

  std::map<int, plain::Traffic> sent;

 private:
  std::unique_ptr<Carrier> inner_;
};

inline constexpr bool kLibraryWantsEqualSlices = true;
inline constexpr bool kEveryRing = false;  // emulated kernels are slow

struct TestRig {
  TestRig(Endpoint& endpoint, CollectiveOptions options)
      : control(*endpoint.control),
        cuda(make_cuda_device(endpoint.link->rank(), Fill::nan)),
        device(std::make_unique<NearDevice>(*cuda)),
        stream(cuda->make_stream()),
        kernels(kernels::make_ordered_table(
            kernels::make_cuda_table(*device,
                                     {.stream = stream->handle(), .finish = [this] { stream->finish(); }}),
            *stream)),
        link(make_nccl_carrier(*cuda, *stream, control, options.timeout_s)) {
    options.stream = stream.get();
    transport = make_carried(link, *device, kernels, control, options);
  }

  Control& control;
  std::unique_ptr<CudaDevice> cuda;
  std::unique_ptr<Device> device;
  std::unique_ptr<CudaStream> stream;
  CountingTable kernels;
  CountingCarrier link;
  std::unique_ptr<Transport> transport;
};

inline CollectiveOptions options_of(Algorithm algorithm, int world, double timeout_s) {
  return {.algorithm = algorithm, .places = Places::in_rank_order(world), .timeout_s = timeout_s};
}

// Links carry nothing here.
inline std::vector<int> worlds_here(const TransportRow&) { return {}; }

struct RowAndWorld {
  const TransportRow* row;
  int world;
};

// Ranks as threads, each with a device of its own.
inline std::vector<RowAndWorld> rows_and_worlds(int smallest = 1, int largest = 4) {
  std::vector<RowAndWorld> cases;
  for (int world = smallest; world <= std::min(largest, 4); ++world)
    cases.push_back({&transport_named("nccl"), world});
  return cases;
}

inline std::string name_of(const RowAndWorld& c) {
  return std::string(c.row->name) + "_w" + std::to_string(c.world);
}

}  // namespace zp
