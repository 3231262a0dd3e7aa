// What strategies are made of: a state over the units, the fold over micro-steps, the optimizer and the
// gradient norm. Each says which part of a unit it covers: the whole, or the slice of this rank's place.
#pragma once

#include <vector>

#include "harness/strategy/strategy.hpp"

namespace zp {

enum class Extent { whole, slice };

// The part of a unit that this rank covers, padding included.
Range extent_range(const Rig& rig, int unit, Extent extent);
// A name for logs and messages.
Label label_of(const Rig& rig, Purpose purpose, int unit);
Cuts cuts_of(const Rig& rig, int unit);

// One buffer per unit, held from construction to end.
class UnitState {
 public:
  UnitState(Rig& rig, Category category, Type type, Extent extent);
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
// leaves.
class GradientSums {
 public:
  GradientSums(Rig& rig, Extent extent);

  void begin_micro_step(const Visit& visit) { visit_ = visit; }
  bool is_last_micro_step() const { return visit_.element == last_element_; }
  // Where this micro-step's value of `unit` is to be put.
  View target(int unit) const;
  // Adds it up. In the last micro-step the last sum is divided by `divisor` (where A = 1 there is no sum:
  // nothing is divided here).
  void add(int unit, float divisor);
  // Sum over the micro-steps seen so far.
  const UnitState& sum() const { return buffers_.front(); }

 private:
  void add_into(const View& sum, const View& term, float divisor);

  Rig& rig_;
  Visit visit_;
  int last_element_ = 0;
  std::vector<UnitState> buffers_;  // 0: the gradient itself
  Buffer scratch_;                  // of the largest unit; only where A ≥ 2
  Extent extent_;
};

// fp32 masters and moments with AdamW over one extent, and the parameters made from the masters.
class Optimizer {
 public:
  Optimizer(Rig& rig, Extent extent);
  // First values, the same on every rank and layout. `params` may cover more than the optimizer does.
  void initialise(const UnitState& params);
  // Starts a step with the clipping factor that follows from `norm`.
  void begin_step(double norm);
  // One step on this extent of `unit`; grads and params are views of that extent. Then params = cast(master).
  void update(int unit, const View& grads, const View& params);
  const UnitState& master() const { return master_; }
  const UnitState& m() const { return m_; }
  const UnitState& v() const { return v_; }

 private:
  Rig& rig_;
  Extent extent_;
  UnitState master_, m_, v_;
  double beta1_power_ = 1.0, beta2_power_ = 1.0;  // repeated products, not pow
  kernels::AdamW numbers_;
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

// The whole parameters of one unit, gathered from the slices.
class Gathered {
 public:
  explicit Gathered(Rig& rig) : rig_(rig), buffers_(static_cast<size_t>(rig.layout.unit_count())) {}
  void gather(int unit, const View& mine);
  void drop(int unit);
  View all(int unit) const;

 private:
  Rig& rig_;
  std::vector<Buffer> buffers_;
};

// One unit's whole local gradient, from its backward to its reduction.
class Bucket {
 public:
  void acquire(Rig& rig, int unit);
  View whole(int unit) const;
  // Reduce-scatters into this rank's sums and adds up. The last sum of the step is divided by M.
  void reduce_into(Rig& rig, int unit, GradientSums& sums);
  void drop();

 private:
  int unit_ = -1;
  Buffer buffer_;
};

// Runs for Strategy::own_state and replicas.
void append_mine(std::vector<StateRun>& runs, const Rig& rig, HashKind kind, const UnitState& state);
void append_whole(std::vector<StateRun>& runs, const Rig& rig, HashKind kind, const UnitState& state);
std::vector<StateRun> own_runs(const Rig& rig, const UnitState& params, const UnitState& grads,
                               const Optimizer& optimizer);

}  // namespace zp
