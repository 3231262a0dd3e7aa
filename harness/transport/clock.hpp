// What transfers cost a rank's thread, for whoever measures: a transport says when the thread enters and
// leaves it, and how many collectives are under way. It decides nothing by this.
#pragma once

#include <chrono>
#include <cstddef>

namespace zp {

// Seconds. Together: the time in which the rank was in its transport or a collective was under way.
struct TransportSeconds {
  double exposed = 0;  // in the transport: its calls, waits and polls
  double hidden = 0;   // outside of it, while a collective was under way
};

// Used by the rank's thread.
class TransportClock {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();
  explicit TransportClock(Now now = Clock::now) : now_(now) {}

  // In the transport while one lives; calls within calls count once. Without a clock nothing is counted.
  class Inside {
   public:
    explicit Inside(TransportClock* clock) : clock_(clock) {
      if (clock_ != nullptr) clock_->move(+1);
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() {
      if (clock_ != nullptr) clock_->move(-1);
    }

   private:
    TransportClock* clock_;
  };

  // From now on so many collectives are under way.
  void under_way(size_t collectives) {
    count();
    collectives_ = collectives;
  }

  // What was counted since the last call.
  TransportSeconds take() {
    count();
    const TransportSeconds taken{.exposed = std::chrono::duration<double>(exposed_).count(),
                                 .hidden = std::chrono::duration<double>(hidden_).count()};
    exposed_ = hidden_ = {};
    return taken;
  }

 private:
  void move(int calls) {
    count();
    calls_ += calls;
  }
  void count() {
    const Clock::time_point now = now_();
    if (calls_ > 0) {
      exposed_ += now - since_;
    } else if (collectives_ > 0) {
      hidden_ += now - since_;
    }
    since_ = now;
  }

  Now now_;
  Clock::time_point since_ = now_();
  Clock::duration exposed_{}, hidden_{};
  int calls_ = 0;
  size_t collectives_ = 0;
};

}  // namespace zp
