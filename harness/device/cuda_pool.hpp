// A pool of one GPU's memory, and what CUDA says of it.
#pragma once

#include <cuda_runtime_api.h>

#include "harness/device/device_memory.hpp"

namespace zp {

class Waits;

// Keeps what it once got: its memory is this process's until the end.
class CudaPool {
 public:
  // `waits`: how the host waits for this device.
  CudaPool(int index, Waits& waits);
  CudaPool(const CudaPool&) = delete;
  CudaPool& operator=(const CudaPool&) = delete;
  ~CudaPool() { static_cast<void>(cudaMemPoolDestroy(pool_)); }

  cudaMemPool_t handle() const { return pool_; }
  // In use is all that streams have not given back yet.
  DeviceMemory memory() const;
  // The most in use begins anew, from what is in use now.
  void begin_peak();

 private:
  cudaMemPool_t pool_ = nullptr;
  Bytes grain_;
};

}  // namespace zp
