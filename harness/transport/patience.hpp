// Waiting with a deadline and without spinning: ranks often share cores, so a rank that waits gives its core
// away.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace zp::transport {

using Clock = std::chrono::steady_clock;

inline Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

class Patience {
 public:
  Patience(double timeout_s, Clock::duration longest_sleep)
      : timeout_(seconds(timeout_s)), longest_sleep_(longest_sleep) {}

  // Something moved: the deadline starts again.
  void restart() {
    since_ = Clock::now();
    pauses_ = 0;
  }
  bool expired() const { return Clock::now() - since_ >= timeout_; }
  // Gives the core away: first to whoever is ready, then for longer and longer.
  void pause() {
    if (pauses_ < kYields) {
      ++pauses_;
      std::this_thread::yield();
      return;
    }
    const auto sleep = std::min<Clock::duration>(kShortestSleep * (1 << (pauses_ - kYields)), longest_sleep_);
    if (sleep < longest_sleep_) ++pauses_;
    std::this_thread::sleep_for(sleep);
  }

 private:
  static constexpr int kYields = 32;
  static constexpr std::chrono::microseconds kShortestSleep{20};

  Clock::duration timeout_, longest_sleep_;
  Clock::time_point since_ = Clock::now();
  int pauses_ = 0;
};

}  // namespace zp::transport
