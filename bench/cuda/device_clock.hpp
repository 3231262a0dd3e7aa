// Time on a GPU's stream, between two events.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "harness/device/cuda_check.hpp"

namespace zp::bench {

class DeviceClock {
 public:
  explicit DeviceClock(cudaStream_t stream) : stream_(stream) {
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
  }
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;
  ~DeviceClock() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }

  // Of one call, over `calls` that are put on the stream one after another.
  double seconds(const std::function<void()>& run, int calls) const {
    check(cudaEventRecord(begin_, stream_));
    for (int call = 0; call < calls; ++call) run();
    check(cudaEventRecord(end_, stream_));
    check(cudaEventSynchronize(end_));
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return static_cast<double>(milliseconds) * 1e-3 / calls;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace zp::bench
