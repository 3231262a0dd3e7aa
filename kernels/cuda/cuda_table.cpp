// The CUDA table: owns the workspace and the pinned memory through which the host hears of results.
#include "kernels/cuda/cuda_table.hpp"

#include <cstddef>

#include "harness/device/cuda_check.hpp"
#include "kernels/arguments.hpp"
#include "kernels/cuda/context.hpp"

namespace zp::kernels {

namespace cuda {

void Context::begin_hand_over() const {
  check(cudaMemsetAsync(handed, 0, offsetof(HandedOver, outside), stream));
  check(cudaMemsetAsync(&handed->refused, 0xff, sizeof handed->refused, stream));
}

const HandedOver& Context::hand_over() const {
  check(cudaMemcpyAsync(arrived, handed, sizeof(HandedOver), cudaMemcpyDeviceToHost, stream));
  finish();
  if (arrived->outside != 0) {
    check(cudaMemsetAsync(&handed->outside, 0, sizeof handed->outside, stream));
    require_tokens(false);
  }
  return *arrived;
}

}  // namespace cuda

namespace {

static_assert(sizeof(cuda::HandedOver) == 128, "the workspace's closed form counts it");
constexpr int64_t kHandedFloats = sizeof(cuda::HandedOver) / sizeof(float);

class Pinned {
 public:
  Pinned() { check(cudaMallocHost(&data_, sizeof(cuda::HandedOver))); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  // Nothing can be done for a device that fails now; the call that made it fail has said so.
  ~Pinned() { static_cast<void>(cudaFreeHost(data_)); }
  void leave() { data_ = nullptr; }
  cuda::HandedOver* get() const { return static_cast<cuda::HandedOver*>(data_); }

 private:
  void* data_ = nullptr;
};

class CudaTable final : public Table {
 public:
  CudaTable(Device& device, const CudaTableOptions& options)
      : workspace_(device.acquire(Category::workspace, Type::f32, {cuda_workspace(options).n / 4})) {
    workspace_.all().storage()->settle();
    auto* floats = static_cast<float*>(workspace_.all().raw());
    context_.stream = options.stream;
    context_.finish = options.finish;
    if (!context_.finish) {
      context_.finish = [stream = options.stream] { check(cudaStreamSynchronize(stream)); };
    }
    context_.handed = reinterpret_cast<cuda::HandedOver*>(floats);
    check(cudaMemsetAsync(context_.handed, 0, sizeof(cuda::HandedOver), context_.stream));
    context_.arrived = arrived_.get();
    context_.attention_rows = floats + kHandedFloats;
    context_.max_attention_rows = options.max_attention_rows;
  }
  // The workspace goes back to the device: no kernel may still use it.
  ~CudaTable() override {
    try {
      context_.finish();
    } catch (const Error&) {
      // Whoever waited for results was told. CUDA would wait for the device before it took the memory back.
      arrived_.leave();
    }
  }

  void run(const Call& call) override {
    require_arguments(call);
    std::visit([this](const auto& one) { cuda::run(context_, one); }, call);
  }

 private:
  Buffer workspace_;
  Pinned arrived_;
  cuda::Context context_;
};

}  // namespace

Bytes cuda_workspace(const CudaTableOptions& options) {
  return {static_cast<int64_t>(sizeof(cuda::HandedOver)) + 4 * options.max_attention_rows};
}

std::unique_ptr<Table> make_cuda_table(Device& device, const CudaTableOptions& options) {
  require(options.max_attention_rows >= 0, "attention has no negative number of rows");
  return std::make_unique<CudaTable>(device, options);
}

}  // namespace zp::kernels
