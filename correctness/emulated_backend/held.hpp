// A stream of an emulated device that does nothing more until it is told to.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "harness/device/cuda_check.hpp"
#include "harness/device/cuda_device.hpp"

namespace zp {

// Work of a stream that ends with this object.
class Held {
 public:
  explicit Held(CudaStream& stream) {
    const auto wait = [](void* held) {
      auto& [told, over] = static_cast<Held*>(held)->state_;
      while (!told) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      over = true;
    };
    check(cudaLaunchHostFunc(stream.handle(), wait, this));
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    state_.told = true;
    while (!state_.over) std::this_thread::yield();
  }

 private:
  struct State {
    std::atomic<bool> told{false}, over{false};
  } state_;
};

}  // namespace zp
