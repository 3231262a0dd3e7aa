// What strategies are made of: a state over the units, the fold over micro-steps, the optimizer and the
// gradient norm. Each says which part of a unit it covers: the whole, or the slice of this rank's place.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "harness/layout/uses.hpp"
#include "harness/strategy/strategy.hpp"

namespace zp {

enum class Extent { whole, slice };

// The part of a unit that this rank covers, padding included.
Range extent_range(const Rig& rig, int unit, Extent extent);
// A name for logs and messages.
Label label_of(const Rig& rig, Purpose purpose, int unit);
Cuts cuts_of(const Rig& rig, int unit);
// Sets the padding of a whole unit to zero.
void clear_padding(Rig& rig, int unit, const View& whole);

// One buffer per unit, held from construction to end. Frozen units have parameters only: of other categories
// nothing is held.
class UnitState {
 public:
  UnitState(Rig& rig, Category category, Type type, Extent extent);
  bool holds(int unit) const { return buffers_[static_cast<size_t>(unit)].held(); }
  View all(int unit) const { return buffers_[static_cast<size_t>(unit)].all(); }
  // The own slice, wherever it lies.
  View mine(int unit) const;
  Extent extent() const { return extent_; }

 private:
  const Rig& rig_;
  Extent extent_;
  std::vector<Buffer> buffers_;
};

// Gradients of one step: the fold over micro-steps (layout/fold.hpp), unit by unit. With Extent::whole a
// place's own micro-batches are summed before ranks talk; with Extent::slice what each micro-step's reduction
// leaves. In fixed point one sum of int64 a unit takes every micro-step in any order, and becomes the
// gradient at the last: in the reduction (whole), or in its last addition (slice).
class GradientSums {
 public:
  GradientSums(Rig& rig, Extent extent);

  void begin_micro_step(const Visit& visit) { visit_ = visit; }
  // Whole units: the scratch serves one unit at a time, so one that `unit` borrows needs its own, until its
  // gradient is added.
  void before_backward(int unit);
  bool is_last_micro_step() const { return visit_.element == last_element_; }
  // Where this micro-step's value of `unit` is to be put.
  View target(int unit) const;
  // Adds it up. In the last micro-step the last sum is divided by `divisor` (where A = 1 there is no sum:
  // nothing is divided here).
  void add(int unit, float divisor);
  // What a sum over places is divided by where it is made: M where it is the only sum of the step, else 1.
  float place_divisor() const;
  // Sum over the micro-steps seen so far; in fixed point the averaged gradient, once it is reduced.
  const UnitState& sum() const { return buffers_.front(); }
  // What the reduction of a whole unit takes.
  View summed(int unit) const { return (fixed_.empty() ? sum() : fixed_.front()).all(unit); }

 private:
  bool is_first_micro_step() const { return visit_.first && visit_.target == 0; }
  void add_into(const View& sum, const View& term, float divisor);
  void add_fixed(int unit, float divisor);

  Rig& rig_;
  Visit visit_;
  int last_element_ = 0;
  std::vector<UnitState> buffers_;  // 0: the gradient itself
  std::vector<UnitState> fixed_;    // at most one: the sum in fixed point, only where A ≥ 2
  Buffer scratch_;                  // of the largest unit; only where A ≥ 2
  std::vector<Buffer> borrowed_;    // by unit: scratch of its own
  Extent extent_;
};

// One of the states that an optimizer keeps.
struct OptimizerState {
  HashKind kind = HashKind::master;
  UnitState values;
};

// AdamW or SGD over one extent: fp32 moments, and masters from which the parameters are made. Parameters that
// are fp32 have no master, and are updated in place.
class Optimizer {
 public:
  Optimizer(Rig& rig, Extent extent);
  // First values, the same on every rank and layout. `params` may cover more than the optimizer does.
  void initialise(const UnitState& params);
  // Starts a step with the clipping factor that follows from `norm`.
  void begin_step(double norm);
  // One step on this extent of `unit`; grads and params are views of that extent. Where there is a master,
  // params = cast(master) then.
  void update(int unit, const View& grads, const View& params);
  // In the order of their kinds; sgd's momentum is its first moment.
  const std::vector<OptimizerState>& states() const { return states_; }

 private:
  View state(HashKind kind, int unit) const;
  // One step on `part` of a unit's views.
  void step(int unit, Range part, const View& grads, const View& exact, float decay);
  // First values of the elements of `covered` of a unit.
  void fill(const UnitLayout& unit, Range covered, const View& into);
  // The master's first values, and from them the parameters'.
  void fill_with_master(const UnitLayout& unit, const UnitState& params);

  Rig& rig_;
  Extent extent_;
  std::vector<OptimizerState> states_;
  double beta1_power_ = 1.0, beta2_power_ = 1.0;  // repeated products, not pow
  kernels::AdamW adamw_;                          // numbers of the step
  kernels::Sgd sgd_;
};

// Norm of the averaged gradient: every rank sums its own slice, and all ranks gather the exact sums.
class GradientNorm {
 public:
  explicit GradientNorm(Rig& rig);
  // `sums` holds the averaged gradient of at least the own slice of every unit. Infinity on every rank where
  // the gradient is not finite anywhere.
  double operator()(const UnitState& sums);

 private:
  Rig& rig_;
  Buffer limbs_;  // 6 int64 per place
};

// Whole parameters gathered from slices, use by use; gathers run ahead by as many uses as the schedule says,
// within one micro-step.
class Gathered {
 public:
  // The last `keep` units are gathered once, for their first use, and held until their last one is over.
  Gathered(Rig& rig, const UnitState& slices, int keep);
  void begin_micro_step();
  // Before and after the next use in the order of layout/uses.hpp.
  void before(int unit);
  void after(int unit);
  // The whole of a unit that the use in progress reads.
  View all(int unit) const;

 private:
  // One gather, and the first and last use that it serves.
  struct Slot {
    int unit = 0;
    size_t first = 0, last = 0;
    Buffer whole;
    Handle gather;
  };
  bool serves(const Slot& slot) const { return slot.first <= use_ && use_ <= slot.last; }
  void plan(int unit, size_t use, bool kept);
  void start(Slot& slot);

  Rig& rig_;
  const UnitState& slices_;
  std::vector<Use> uses_;
  std::vector<Slot> slots_;  // in the order of their first use
  size_t use_ = 0;           // the next one, or the one in progress
  size_t started_ = 0;       // gathers of this micro-step
};

// Whole local gradients of units, each from the first backward that writes it to the end of its reduction.
class LocalGradients {
 public:
  explicit LocalGradients(Rig& rig) : rig_(rig), wholes_(static_cast<size_t>(rig.layout.unit_count())) {}
  // What the backward of `unit` writes: its own gradient, and that of the unit it borrows.
  void acquire(int unit);
  View whole(int unit) const;
  void drop(int unit) { wholes_[static_cast<size_t>(unit)].drop(); }

 private:
  void acquire_own(int unit);

  Rig& rig_;
  std::vector<Buffer> wholes_;
};

// Reductions of whole units, bucket by bucket; at most one unit's is under way. `finished` is called when it
// is over, or comes before whatever uses its buffers then (Handle::order). In fixed point, gradients that
// were not summed in it before cross ranks through an image.
class Reductions {
 public:
  // `sums`: the extent of what is summed over micro-steps.
  Reductions(Rig& rig, Extent sums, std::function<void(int unit)> finished);
  // Finishes what is under way, then begins; without overlap it is over when this returns.
  void reduce_scatter(int unit, const View& whole, const View& mine, float divisor);
  // The sum over places of `summed` (which may be the whole itself), averaged, in `whole`.
  void all_reduce(int unit, const View& summed, const View& whole, float divisor);
  void finish();
  // The host waits for what was finished on streams alone.
  void catch_up();

 private:
  template <class Start>
  void begin(int unit, const Start& start);
  // How `summed` crosses ranks; readies its padding for it.
  FixedPoint fixed_point_of(int unit, const View& summed);

  Rig& rig_;
  Buffer image_;  // of the largest reduction
  std::function<void(int unit)> finished_;
  int unit_ = -1;                         // under way; -1: none
  std::vector<Handle> handles_, before_;  // of the unit under way; of the one before it
};

// The host starts a use's kernels while transfers of so many uses before are not over, where streams order
// them. No more: CUDA takes some thousand pieces of work and then blocks the call, where no deadline is
// looked at.
inline constexpr int kUsesAhead = 2;

// Gathers of updated parameters, unit after unit; at most one is under way, or two where streams order them.
class UpdatedParams {
 public:
  UpdatedParams(Rig& rig, const UnitState& params) : rig_(rig), params_(params) {}
  void gather(int unit);
  void finish() { handle_.wait(); }

 private:
  Rig& rig_;
  const UnitState& params_;
  Handle handle_, before_;
};

// Runs for Strategy::own_state and replicas.
void append_mine(std::vector<StateRun>& runs, const Rig& rig, HashKind kind, const UnitState& state);
void append_whole(std::vector<StateRun>& runs, const Rig& rig, HashKind kind, const UnitState& state);
std::vector<StateRun> own_runs(const Rig& rig, const UnitState& params, const UnitState& grads,
                               const Optimizer& optimizer);

}  // namespace zp
