// Collectives that are under way on a stream, and what becomes of them while the host waits for the device:
// it sees what has ended, and gives up what does not, on all ranks. Only for carried.cpp.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/transport/caption.hpp"
#include "harness/transport/carrier.hpp"
#include "harness/transport/patience.hpp"

namespace zp::transport {

// One collective on the stream.
struct UnderWay {
  // A round of messages, or a call of the library's own.
  struct Step {
    std::function<std::string()> text;  // what it moves, and to and from whom
    std::shared_ptr<Mark> ended;
  };
  Caption caption;
  std::shared_ptr<Mark> begun;  // what comes before it is over
  std::vector<Step> steps;
  std::shared_ptr<Mark> ended;  // none before all of it was put
};

class StreamWatch final : public Lookout {
 public:
  StreamWatch(Carrier& carrier, Control& control, double timeout_s, bool native)
      : carrier_(carrier),
        control_(control),
        timeout_s_(timeout_s),
        native_(native),
        patience_(timeout_s, kLongestSleepInCollectives) {}

  // Collectives end in the order in which they were put. Returns whether any was seen to have ended.
  bool see_ended();
  // What the library says is wrong is so in the first collective that has not ended.
  void hear_carrier();
  std::deque<UnderWay>& under_way() { return under_way_; }
  const Error* failure() const { return failure_.get(); }

  // Ends what is under way, for the first reason that was given.
  void abandon(const Error& reason);
  // act() is part of putting a collective; what fails there ends all of them.
  template <class Act>
  void attempt(const Caption& caption, const Act& act) {
    try {
      act();
    } catch (const Error& error) {
      abandon(named(error, caption));
    } catch (const std::exception& error) {
      abandon(Error(Exit::internal, error.what()));
    }
  }

  void begin() override;
  void look() override;

 private:
  std::string title_of(const Caption& caption) const;
  Error named(const Error& error, const Caption& caption) const;

  Carrier& carrier_;
  Control& control_;
  double timeout_s_;
  bool native_;
  Patience patience_;
  std::deque<UnderWay> under_way_;
  std::unique_ptr<Error> failure_;
};

}  // namespace zp::transport
