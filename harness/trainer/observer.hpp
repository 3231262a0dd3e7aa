// Who looks at a rank's numbers as the step loop passes them, to write them down. Called outside the step's
// time and beside the ledger; views are valid during the call only, and are read, never written.
#pragma once

#include "harness/model/data.hpp"
#include "harness/strategy/strategy.hpp"

namespace zp {

class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  // A run of the state that this rank answers for: before the first step (`step` is kBeforeTraining), then
  // averaged gradients, and what each step left.
  virtual void state(int step, const StateRun& run) = 0;
  // The stored gradient of one trained unit, whole, of the micro-batch `number` that this rank computed.
  virtual void gradient(int step, int number, int unit, const View& whole) = 0;
  virtual void micro_batch(int step, int number, const MicroBatch& tokens, float loss) = 0;
  // What every rank knows at a step's end: the mean loss, and the norm of the averaged gradient.
  virtual void totals(int step, double loss, double norm) = 0;

  static constexpr int kBeforeTraining = -1;
};

}  // namespace zp
