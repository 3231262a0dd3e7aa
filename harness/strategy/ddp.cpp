// DDP: every rank holds everything and updates everything; gradients are all-reduced once a step.
#include "harness/strategy/state.hpp"

namespace zp {
namespace {

class Ddp final : public Strategy {
 public:
  explicit Ddp(Rig& rig)
      : rig_(rig),
        params_(rig, Category::params, rig.training.recipe.params, Extent::whole),
        sums_(rig, Extent::whole),
        reductions_(rig, Extent::whole, {}),
        optimizer_(rig, Extent::whole),
        norm_(rig) {
    optimizer_.initialise(params_);
  }

  void begin_micro_step(const Visit& visit) override { sums_.begin_micro_step(visit); }
  void before_forward(int) override {}
  void after_forward(int) override {}
  void before_backward(int unit) override { sums_.before_backward(unit); }

  void after_backward(int unit) override {
    if (rig_.layout.unit(unit).frozen) return;
    sums_.add(unit, 1.0F);
    if (!sums_.is_last_micro_step()) return;
    reductions_.all_reduce(unit, sums_.summed(unit), sums_.sum().all(unit),
                           static_cast<float>(rig_.training.batching.micro_batches));
  }

  View params(int unit) override { return params_.all(unit); }
  View grads(int unit) override { return sums_.target(unit); }
  void finish_reductions() override { reductions_.finish(); }

  double step() override {
    const double norm = norm_(sums_.sum());
    optimizer_.begin_step(norm);
    for (const int unit : rig_.layout.trained()) {
      optimizer_.update(unit, sums_.sum().all(unit), params_.all(unit));
    }
    return norm;
  }

  std::vector<StateRun> own_state() override { return own_runs(rig_, params_, sums_.sum(), optimizer_); }

  std::vector<StateRun> replicas() override {
    std::vector<StateRun> runs;
    append_whole(runs, rig_, HashKind::grad, sums_.sum());
    append_whole(runs, rig_, HashKind::param, params_);
    for (const OptimizerState& state : optimizer_.states()) {
      append_whole(runs, rig_, state.kind, state.values);
    }
    return runs;
  }

  Reduction reduction() const override { return Reduction::after_accumulation; }

 private:
  Rig& rig_;
  UnitState params_;
  GradientSums sums_;
  Reductions reductions_;
  Optimizer optimizer_;
  GradientNorm norm_;
};

}  // namespace

std::unique_ptr<Strategy> make_ddp(Rig& rig) { return std::make_unique<Ddp>(rig); }

}  // namespace zp
