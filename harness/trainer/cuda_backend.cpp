// The backend of GPUs, as a library: each rank has a pool of memory on one, a stream for forward, backward
// and optimizer, and one for its transport, whose messages pass through pinned memory, are given to an MPI
// that reaches a GPU's, or are NCCL's. Compiled twice: against CUDA's runtime, and against one that emulates
// it on the host.
#include <fmt/format.h>

#include <cstdlib>

#include "harness/device/cuda_device.hpp"
#include "harness/trainer/backend_library.hpp"
#include "harness/transport/aware.hpp"
#include "harness/transport/nccl.hpp"
#include "harness/transport/nccl_words.hpp"
#include "harness/transport/staged.hpp"
#include "kernels/access.hpp"
#include "kernels/cuda/cuda_table.hpp"
#include "kernels/cuda/vendor_table.hpp"

namespace zp {
namespace {

kernels::VendorOptions vendor_options(const KernelNeeds& needs, CudaStream* stream) {
  return {.stream = stream == nullptr ? nullptr : stream->handle(),
          .finish = [stream] { stream->finish(); },
          .operands = needs.operands,
          .largest_a = needs.largest_a,
          .largest_b = needs.largest_b,
          .alignment = needs.alignment};
}

class CudaEngine final : public Engine {
 public:
  CudaEngine(int gpu, Fill fill, double timeout_s) : device_(make_cuda_device(gpu, fill, timeout_s)) {}

  Device& device() override { return *device_; }
  std::unique_ptr<kernels::Table> make_kernels(Device& device, const KernelNeeds& needs) override {
    auto own = kernels::make_cuda_table(device, {.stream = compute_->handle(),
                                                 .finish = [this] { compute_->finish(); },
                                                 .max_attention_rows = needs.attention_rows});
    if (needs.math == Math::vendor) {
      auto vendor = kernels::make_vendor_table(std::move(own), device, vendor_options(needs, compute_.get()));
      products_ = vendor.get();
      own = std::move(vendor);
    }
    return kernels::make_ordered_table(std::move(own), *compute_);
  }
  Stream* transport_stream() override { return transport_.get(); }
  std::unique_ptr<kernels::Table> make_transport_kernels(Device& device) override {
    return kernels::make_ordered_table(
        kernels::make_cuda_table(device, {.stream = transport_->handle(),
                                          .finish = [this] { transport_->finish(); },
                                          .max_attention_rows = 0}),
        *transport_);
  }
  std::unique_ptr<Link> make_link(Link& inner, Route route) override {
    if (route == Route::gpu_aware) return make_aware_link(inner, *transport_);
    return make_staged_link(inner, *device_->far_memory(), *transport_);
  }
  std::unique_ptr<Carrier> make_carrier(Control& control, double timeout_s) override {
    return make_nccl_carrier(*device_, *transport_, control, timeout_s);
  }
  void finish() override {
    transport_->finish();
    compute_->finish();
  }
  std::optional<DeviceMemory> memory() override { return device_->memory(); }
  void begin_peak() override { device_->begin_peak(); }
  std::vector<std::string> choices() const override {
    return products_ == nullptr ? std::vector<std::string>() : products_->choices();
  }

 private:
  const kernels::VendorTable* products_ = nullptr;  // lives as long as the kernels that were made
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaStream> compute_ = device_->make_stream(), transport_ = device_->make_stream();
};

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

class CudaBackend final : public Backend {
 public:
  std::string_view name() const override { return ZP_BACKEND; }
  std::string description() const override {
    const CudaGpu& first = here_.gpus.front();
    const std::string ranks =
        here_.gpus.size() == 1 ? "" : fmt::format("rank r of a host on GPU r mod {}, ", here_.gpus.size());
    return fmt::format("{} x {} ({:.1f} GiB), {}{}", here_.gpus.size(), first.name,
                       static_cast<double>(first.memory.n) / (1 << 30), ranks, versions());
  }
  std::vector<DeviceFacts> devices() const override {
    std::vector<DeviceFacts> list;
    for (const CudaGpu& gpu : here_.gpus) {
      list.push_back({.name = gpu.name,
                      .compute_capability = fmt::format("{}.{}", gpu.major, gpu.minor),
                      .pci = gpu.pci,
                      .uuid = gpu.uuid,
                      .memory = gpu.memory,
                      .limits = gpu.limits,
                      .peers = gpu.peers});
    }
    return list;
  }
  std::string versions() const override {
    return fmt::format("CUDA driver {}, runtime {}", version_text(here_.driver), version_text(here_.runtime));
  }
  void ask_carrier(CarrierLog log) const override {
    // Among ranks of one process, and there alone, NCCL would have GPUs reach into each other's buffers, and
    // those of a pool are reached by its own GPU only, as long as cudaMemPoolSetAccess allows no other.
    setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0);
    ask_nccl_for_words(log);
  }
  std::string carrier_version() const override { return nccl_version(); }
  std::vector<std::string> carrier_words() const override { return nccl_words(); }
  std::string carrier_log() const override { return nccl_log(); }
  std::unique_ptr<Engine> make_engine(int local_rank, Fill fill, double timeout_s) const override {
    return std::make_unique<CudaEngine>(local_rank % static_cast<int>(here_.gpus.size()), fill, timeout_s);
  }
  Bytes workspace(const KernelNeeds& needs) const override {
    const Bytes own =
        kernels::cuda_workspace({.stream = nullptr, .max_attention_rows = needs.attention_rows}) +
        kernels::cuda_workspace({});
    if (needs.math == Math::ordered) return own;
    return own + kernels::vendor_workspace(vendor_options(needs, nullptr));
  }
  std::string vendor() const override {
    // Ranks on different devices would not compute the same.
    for (const CudaGpu& gpu : here_.gpus) {
      if (gpu.name == here_.gpus.front().name) continue;
      fail(Exit::unavailable, "--math vendor: the GPUs of this host differ (" + here_.gpus.front().name +
                                  ", " + gpu.name +
                                  "), and so would their bits; CUDA_VISIBLE_DEVICES selects some");
    }
    return kernels::vendor_library() + " on " + here_.gpus.front().name;
  }

 private:
  CudaHere here_ = find_gpus();
};

}  // namespace
}  // namespace zp

extern "C" {

[[gnu::visibility("default")]] const char* zeroproof_backend_contract() { return zp::kBuild; }

[[gnu::visibility("default")]] const zp::Backend* zeroproof_backend() {
  // Loading a kernel at its first call may wait for all that the device does, where no deadline is looked at.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  // Ranks that share a GPU have four streams each: with as few queues as there are by default, streams would
  // wait for each other that have nothing to do with each other.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  static const zp::CudaBackend backend;
  return &backend;
}
}
