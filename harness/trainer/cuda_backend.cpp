// The backend of GPUs, as a library: each rank has a pool of memory on one, a stream for forward, backward
// and optimizer, and one for its transport, whose messages pass through pinned memory. Compiled twice:
// against CUDA's runtime, and against one that emulates it on the host.
#include <fmt/format.h>

#include "harness/device/cuda_device.hpp"
#include "harness/trainer/backend_library.hpp"
#include "harness/transport/staged.hpp"
#include "kernels/access.hpp"
#include "kernels/cuda/cuda_table.hpp"

namespace zp {
namespace {

class CudaEngine final : public Engine {
 public:
  CudaEngine(int gpu, Fill fill) : device_(make_cuda_device(gpu, fill)) {}

  Device& device() override { return *device_; }
  std::unique_ptr<kernels::Table> make_kernels(Device& device, const KernelNeeds& needs) override {
    return kernels::make_ordered_table(
        kernels::make_cuda_table(device,
                                 {.stream = compute_->handle(), .max_attention_rows = needs.attention_rows}),
        *compute_);
  }
  Stream* transport_stream() override { return transport_.get(); }
  std::unique_ptr<kernels::Table> make_transport_kernels(Device& device) override {
    return kernels::make_ordered_table(
        kernels::make_cuda_table(device, {.stream = transport_->handle(), .max_attention_rows = 0}),
        *transport_);
  }
  std::unique_ptr<Link> make_link(Link& inner) override {
    return make_staged_link(inner, *device_->far_memory(), *transport_);
  }
  void finish() override { compute_->finish(); }
  std::optional<DeviceMemory> memory() override { return device_->memory(); }
  void begin_peak() override { device_->begin_peak(); }

 private:
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
    return fmt::format("{} x {} ({:.1f} GiB), {}{}; messages are staged through pinned memory",
                       here_.gpus.size(), first.name, static_cast<double>(first.memory.n) / (1 << 30), ranks,
                       versions());
  }
  std::vector<DeviceFacts> devices() const override {
    std::vector<DeviceFacts> list;
    for (const CudaGpu& gpu : here_.gpus) {
      list.push_back({.name = gpu.name,
                      .compute_capability = fmt::format("{}.{}", gpu.major, gpu.minor),
                      .pci = gpu.pci,
                      .memory = gpu.memory,
                      .limits = gpu.limits,
                      .peers = gpu.peers});
    }
    return list;
  }
  std::string versions() const override {
    return fmt::format("CUDA driver {}, runtime {}", version_text(here_.driver), version_text(here_.runtime));
  }
  std::unique_ptr<Engine> make_engine(int local_rank, Fill fill) const override {
    return std::make_unique<CudaEngine>(local_rank % static_cast<int>(here_.gpus.size()), fill);
  }
  Bytes workspace(const KernelNeeds& needs) const override {
    return kernels::cuda_workspace({.stream = nullptr, .max_attention_rows = needs.attention_rows}) +
           kernels::cuda_workspace({});
  }

 private:
  CudaHere here_ = find_gpus();
};

}  // namespace
}  // namespace zp

extern "C" {

[[gnu::visibility("default")]] const char* zeroproof_backend_contract() { return zp::kBuild; }

[[gnu::visibility("default")]] const zp::Backend* zeroproof_backend() {
  static const zp::CudaBackend backend;
  return &backend;
}
}
