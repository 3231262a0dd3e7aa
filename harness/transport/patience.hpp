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

// Of a rank that waits in a collective: short beside the time that one takes.
inline constexpr std::chrono::microseconds kLongestSleepInCollectives{500};
// Of one that waits for news: start-up, verdicts, the end.
inline constexpr std::chrono::milliseconds kLongestSleep{2};

class Patience {
 public:
  Patience(double timeout_s, Clock::duration longest_sleep)
      : timeout_(seconds(timeout_s)), longest_sleep_(longest_sleep) {}

  // Something moved: the deadline starts again.
  void restart() {
    since_ = Clock::now();
    sleep_ = Clock::duration::zero();
  }
  bool expired() const { return Clock::now() - since_ >= timeout_; }
  // Gives the core away: first to whoever is ready, then for longer and longer.
  void pause() {
    if (Clock::now() - since_ < kAttentive) {
      std::this_thread::yield();
      return;
    }
    sleep_ = std::clamp<Clock::duration>(2 * sleep_, kShortestSleep, longest_sleep_);
    std::this_thread::sleep_for(sleep_);
  }

 private:
  // Longer than a message takes, which may move only while it is looked after; not much longer, as a rank
  // that keeps standing in line for a crowded core loses its share of it.
  static constexpr std::chrono::microseconds kAttentive{500};
  static constexpr std::chrono::microseconds kShortestSleep{20};

  Clock::duration timeout_, longest_sleep_;
  Clock::time_point since_ = Clock::now();
  Clock::duration sleep_{};
};

}  // namespace zp::transport
