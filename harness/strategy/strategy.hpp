// What a stage decides: what each rank keeps, and when ranks talk. The step loop calls the hooks in the order
// of the table in README; a strategy sees device, kernels and transport, never the ledger and never theory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/base/type.hpp"
#include "harness/device/device.hpp"
#include "harness/layout/fold.hpp"
#include "harness/layout/layout.hpp"
#include "harness/layout/training.hpp"
#include "harness/transport/transport.hpp"
#include "kernels/hash.hpp"
#include "kernels/kernels.hpp"

namespace zp {

// What a strategy may use.
struct Rig {
  Device& device;
  kernels::Table& kernels;
  Transport& transport;
  const Layout& layout;
  const Training& training;
};

// A run of one unit's state that this rank holds and answers for, or replicates.
struct StateRun {
  HashKind kind = HashKind::param;
  int unit = 0;
  Range in_unit;  // padding included
  View view;      // of that length
};

class Strategy {
 public:
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;

  // Which micro-batch comes next, and where its gradients go, follows the fold over micro-steps.
  virtual void begin_micro_step(const Visit& visit) = 0;
  virtual void before_forward(int unit) = 0;
  virtual void after_forward(int unit) = 0;
  virtual void before_backward(int unit) = 0;
  virtual void after_backward(int unit) = 0;
  // Whole parameters of a unit, or of the one that it borrows, between a before_ and its after_ hook.
  virtual View params(int unit) = 0;
  // Where a trained unit's gradient of this micro-step is to be written, between before_backward and
  // after_backward of the unit, or of the one that borrows it.
  virtual View grads(int unit) = 0;
  // Every reduction of the step is complete, or comes before whatever uses its buffers later: each rank's
  // slice holds the averaged gradient.
  virtual void finish_reductions() = 0;
  // Norm, clipping, optimizer, parameters. Returns the gradient norm (fp64).
  virtual double step() = 0;

  // This rank's share of the state: parameters, reduced gradients, masters and moments of its own slices.
  virtual std::vector<StateRun> own_state() = 0;
  // Whole parameters that are held between steps (empty for zero3).
  virtual std::vector<StateRun> replicas() = 0;
  virtual Reduction reduction() const = 0;
};

std::unique_ptr<Strategy> make_ddp(Rig& rig);
std::unique_ptr<Strategy> make_zero1(Rig& rig);
std::unique_ptr<Strategy> make_zero1_allreduce(Rig& rig);
std::unique_ptr<Strategy> make_zero2(Rig& rig);
std::unique_ptr<Strategy> make_zero3(Rig& rig);
std::unique_ptr<Strategy> make_zero3_keep(Rig& rig);

}  // namespace zp
