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
        optimizer_(rig, Extent::slice),
        norm_(rig) {
    optimizer_.initialise(params_);
  }

  void begin_micro_step(const Visit& visit) override { sums_.begin_micro_step(visit); }
  void before_forward(int) override {}
  void after_forward(int) override {}
  void before_backward(int) override {}

  void after_backward(int unit) override {
    sums_.add(unit, 1.0F);
    if (sums_.is_last_micro_step()) reduce(unit).wait();
  }

  View params(int unit) override { return params_.all(unit); }
  View grads(int unit) override { return sums_.target(unit); }
  void finish_reductions() override {}

  double step() override {
    const double norm = norm_(sums_.sum());
    optimizer_.begin_step(norm);
    for (int unit = 0; unit < rig_.layout.unit_count(); ++unit) {
      optimizer_.update(unit, sums_.sum().mine(unit), params_.mine(unit));
      rig_.transport
          .all_gather({.mine = params_.mine(unit),
                       .whole = params_.all(unit),
                       .cuts = cuts_of(rig_, unit),
                       .label = label_of(rig_, Purpose::gather_params, unit)})
          .wait();
    }
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
  Handle reduce(int unit) {
    const auto divisor = static_cast<float>(rig_.training.batching.micro_batches);
    const Label label = label_of(rig_, Purpose::reduce_grads, unit);
    if (reduction_ == Operation::all_reduce) {
      return rig_.transport.all_reduce(
          {.whole = sums_.sum().all(unit), .cuts = cuts_of(rig_, unit), .divisor = divisor, .label = label});
    }
    return rig_.transport.reduce_scatter({.whole = sums_.sum().all(unit),
                                          .mine = sums_.sum().mine(unit),
                                          .cuts = cuts_of(rig_, unit),
                                          .divisor = divisor,
                                          .label = label});
  }

  Rig& rig_;
  Operation reduction_;
  UnitState params_;
  GradientSums sums_;
  Optimizer optimizer_;
  GradientNorm norm_;
};

}  // namespace

std::unique_ptr<Strategy> make_zero1(Rig& rig) {
  return std::make_unique<Zero1>(rig, Operation::reduce_scatter);
}

std::unique_ptr<Strategy> make_zero1_allreduce(Rig& rig) {
  return std::make_unique<Zero1>(rig, Operation::all_reduce);
}

}  // namespace zp
