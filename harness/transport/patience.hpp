// Waiting with a deadline and without spinning: ranks often share cores, so a rank that waits gives its core
// away.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

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
  // `looks_yield`: whoever waits looks before every pause, and that gives the core away already.
  Patience(double timeout_s, Clock::duration longest_sleep, bool looks_yield = false)
      : timeout_(seconds(timeout_s)), longest_sleep_(longest_sleep), looks_yield_(looks_yield) {}

  // Something moved: the deadline starts again.
  void restart() {
    fresh_ = true;
    sleep_ = Clock::duration::zero();
  }
  // As of the last pause: to read the clock costs a good part of a look, so only a pause does.
  bool expired() const { return !fresh_ && now_ - since_ >= timeout_; }
  // Gives the core away: first to whoever is ready, then for longer and longer.
  void pause() {
    now_ = Clock::now();
    if (std::exchange(fresh_, false)) since_ = now_;
    if (now_ - since_ < kAttentive) {
      if (!looks_yield_) std::this_thread::yield();
      return;
    }
    sleep_ = std::clamp<Clock::duration>(2 * sleep_, kShortestSleep, longest_sleep_);
    std::this_thread::sleep_for(sleep_);
  }

 private:
  // Longer than a message takes where ranks share cores, since it may move only while it is looked after: at
  // half of this, a reduce-scatter of 1 MiB took twice as long on 4 ranks of 2 cores. Not much longer, as a
  // rank that keeps standing in line for a crowded core loses its share of it.
  static constexpr std::chrono::microseconds kAttentive{1000};
  static constexpr std::chrono::microseconds kShortestSleep{20};

  Clock::duration timeout_, longest_sleep_;
  bool looks_yield_;
  bool fresh_ = false;  // nobody has paused since something moved
  Clock::time_point since_ = Clock::now(), now_ = since_;
  Clock::duration sleep_{};
};

}  // namespace zp::transport
