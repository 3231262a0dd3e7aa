// Memory for tests of CUDA kernels: pinned, so that the host fills and reads it where kernels use it, and NaN
// at first; workspace lies on the device, as it does in a run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>

#include "harness/device/cuda_check.hpp"
#include "harness/device/device.hpp"

namespace zp {

class PinnedDevice final : public Device {
 public:
  void* allocate(Category category, Bytes bytes) override {
    if (bytes.n == 0) return nullptr;
    void* data = nullptr;
    if (category == Category::workspace) {
      check(cudaMalloc(&data, static_cast<size_t>(bytes.n)));
      check(cudaMemset(data, kNanByte, static_cast<size_t>(bytes.n)));
    } else {
      check(cudaMallocHost(&data, static_cast<size_t>(bytes.n)));
      std::memset(data, kNanByte, static_cast<size_t>(bytes.n));
    }
    return data;
  }

  void release(Category category, void* data, Bytes) noexcept override {
    static_cast<void>(category == Category::workspace ? cudaFree(data) : cudaFreeHost(data));
  }
  FarMemory* far_memory() override { return nullptr; }

 private:
  static constexpr int kNanByte = 0xff;
};

class OwnStream {
 public:
  OwnStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  cudaStream_t get() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace zp
