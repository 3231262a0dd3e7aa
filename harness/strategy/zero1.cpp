// ZeRO-1: every rank holds all parameters and gradients, but masters and moments of its own slice only.
// Gradients are reduce-scattered once a step (zero1) or all-reduced (zero1-allreduce: one change from DDP, a
// pass more); updated slices of the parameters are gathered.
#include "harness/strategy/state.hpp"

namespace zp {
namespace {

class Zero1 final : public Strategy {
 public:
  Zero1(Rig& rig, Operation reduction)
      : rig_(rig),
        reduction_(reduction),
        params_(rig, Category::params, rig.training.recipe.params, Extent::whole),
        sums_(rig, Extent::whole),
        reductions_(rig, Extent::whole, {}),
        optimizer_(rig, Extent::slice),
        norm_(rig),
        updated_(rig, params_) {
    optimizer_.initialise(params_);
  }

  void begin_micro_step(const Visit& visit) override { sums_.begin_micro_step(visit); }
  void before_forward(int) override {}
  void after_forward(int) override {}
  void before_backward(int unit) override { sums_.before_backward(unit); }

  void after_backward(int unit) override {
    if (rig_.layout.unit(unit).frozen) return;
    sums_.add(unit, 1.0F);
    if (sums_.is_last_micro_step()) reduce(unit);
  }

  View params(int unit) override { return params_.all(unit); }
  View grads(int unit) override { return sums_.target(unit); }
  void finish_reductions() override { reductions_.finish(); }

  double step() override {
    const double norm = norm_(sums_.sum());
    optimizer_.begin_step(norm);
    for (const int unit : rig_.layout.trained()) {
      optimizer_.update(unit, sums_.sum().mine(unit), params_.mine(unit));
      updated_.gather(unit);
    }
    updated_.finish();
    return norm;
  }

  std::vector<StateRun> own_state() override { return own_runs(rig_, params_, sums_.sum(), optimizer_); }

  std::vector<StateRun> replicas() override {
    std::vector<StateRun> runs;
    append_whole(runs, rig_, HashKind::param, params_);
    if (reduction_ == Operation::all_reduce) append_whole(runs, rig_, HashKind::grad, sums_.sum());
    return runs;
  }

  Reduction reduction() const override { return Reduction::after_accumulation; }

 private:
  void reduce(int unit) {
    const auto divisor = static_cast<float>(rig_.training.batching.micro_batches);
    const UnitState& sum = sums_.sum();
    if (reduction_ == Operation::all_reduce) {
      reductions_.all_reduce(unit, sums_.summed(unit), sum.all(unit), divisor);
    } else {
      reductions_.reduce_scatter(unit, sums_.summed(unit), sum.mine(unit), divisor);
    }
  }

  Rig& rig_;
  Operation reduction_;
  UnitState params_;
  GradientSums sums_;
  Reductions reductions_;
  Optimizer optimizer_;
  GradientNorm norm_;
  UpdatedParams updated_;
};

}  // namespace

std::unique_ptr<Strategy> make_zero1(Rig& rig) {
  return std::make_unique<Zero1>(rig, Operation::reduce_scatter);
}

std::unique_ptr<Strategy> make_zero1_allreduce(Rig& rig) {
  return std::make_unique<Zero1>(rig, Operation::all_reduce);
}

}  // namespace zp
