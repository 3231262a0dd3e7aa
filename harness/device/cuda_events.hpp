// Events of CUDA, used again and again: a mark gives its own back when nobody needs it any more.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "harness/device/cuda_check.hpp"

namespace zp {

class Events {
 public:
  Events() = default;
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    for (cudaEvent_t event : free_) static_cast<void>(cudaEventDestroy(event));
  }
  cudaEvent_t take() {
    cudaEvent_t event = nullptr;
    if (free_.empty()) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    } else {
      event = free_.back();
      free_.pop_back();
    }
    return event;
  }
  void give_back(cudaEvent_t event) { free_.push_back(event); }

 private:
  std::vector<cudaEvent_t> free_;
};

}  // namespace zp
