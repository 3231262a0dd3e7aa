// Events of one device's streams, and how the host waits for what was put there: by asking, so that it can
// give up what does not end. Only for cuda_device.cpp and cuda_pool.cpp.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/device/cuda_check.hpp"
#include "harness/device/device.hpp"

namespace zp {

inline bool is_over(cudaError_t query) {
  if (query == cudaErrorNotReady) return false;
  check(query);
  return true;
}

// Used again and again: a mark gives its own back when nobody needs it any more. By number.
class Events {
 public:
  Events() = default;
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    for (const Event& one : events_) static_cast<void>(cudaEventDestroy(one.event));
  }

  size_t take() {
    if (free_.empty()) {
      cudaEvent_t event = nullptr;
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      free_.push_back(events_.size());
      events_.push_back({event});
    }
    const size_t number = free_.back();
    free_.pop_back();
    events_[number].pending = true;
    return number;
  }
  void give_back(size_t number) {
    events_[number].pending = false;
    free_.push_back(number);
  }
  cudaEvent_t operator[](size_t number) const { return events_[number].event; }

  // Whether one that is in use has come since this was last asked.
  bool any_came() {
    bool any = false;
    for (Event& one : events_) {
      if (!one.pending || cudaEventQuery(one.event) != cudaSuccess) continue;
      one.pending = false;
      any = true;
    }
    return any;
  }

 private:
  struct Event {
    cudaEvent_t event = nullptr;
    bool pending = false;  // in use, and not seen to have come
  };
  std::vector<Event> events_;
  std::vector<size_t> free_;
};

// What all streams of one device have in common.
struct CudaWork {
  CudaWork(int number, double timeout) : gpu(number), timeout_s(timeout) {}
  int gpu;
  double timeout_s;  // longest time in which nothing ends that the host waits for
  Events events;
  std::unique_ptr<Error> hung;  // something never ends: nobody waits any more, nothing is given back
};

// How the host waits for streams of a device, some of them beside a lookout.
class Waits {
 public:
  explicit Waits(std::shared_ptr<CudaWork> work) : work_(std::move(work)) {}
  void set_lookout(Lookout* lookout) { lookout_ = lookout; }
  void spoil(const Error& reason) {
    if (spoiled_) return;
    spoiled_ = std::make_unique<Error>(reason);
    since_ = Clock::now();
  }
  CudaWork& work() { return *work_; }

  // query() asks CUDA whether it is over.
  template <class Query>
  void wait(const Query& query) {
    if (work_->hung) throw Error(*work_->hung);
    if (lookout_ != nullptr && !spoiled_) lookout_->begin();
    const Clock::time_point began = Clock::now();
    Clock::time_point moved = began, looked = began;
    while (!is_over(query())) {
      const Clock::time_point now = Clock::now();
      if (spoiled_) {
        if (now - since_ >= kMoment) break;
        std::this_thread::sleep_for(kBetweenLooks);
        continue;
      }
      if (lookout_ != nullptr) {
        lookout_->look();
      } else {
        rest(now - began);
      }
      if (!spoiled_) expect_something(now, moved, looked);
    }
    if (spoiled_) throw Error(*spoiled_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kMoment{5};
  static constexpr std::chrono::microseconds kBetweenLooks{200};

  // Asks again at once for a while, and then less and less often: a wait that is long becomes longer still by
  // a hundredth, and by what it takes to wake up. Ranks that share cores lose them to one that goes on
  // asking.
  static void rest(Clock::duration waited) {
    constexpr std::chrono::microseconds kAttentive{200}, kLongest{500};
    if (waited < kAttentive) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<Clock::duration>(waited / 100, kLongest));
    }
  }

  // What ended before the wait began is found at the first look, a quarter of the deadline after that.
  void expect_something(Clock::time_point now, Clock::time_point& moved, Clock::time_point& looked) {
    const auto timeout =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(work_->timeout_s));
    if (now - looked < timeout / 4) return;
    looked = now;
    if (work_->events.any_came()) moved = now;
    if (now - moved < timeout) return;
    std::string seconds = std::to_string(work_->timeout_s);
    seconds.erase(seconds.find_last_not_of('0') + 1);
    if (seconds.back() == '.') seconds.pop_back();
    work_->hung =
        std::make_unique<Error>(Exit::timeout, "GPU " + std::to_string(work_->gpu) + ": waited " + seconds +
                                                   " s for kernels and copies, none of which ended");
    throw Error(*work_->hung);
  }

  std::shared_ptr<CudaWork> work_;
  Lookout* lookout_ = nullptr;
  std::unique_ptr<Error> spoiled_;
  Clock::time_point since_{};
};

}  // namespace zp
