// ZeRO-2: every rank holds all parameters, but gradients, masters and moments of its own slice only. A unit's
// gradient is reduce-scattered as soon as its backward is done, and the rest of it is dropped; updated slices
// are gathered.
#include "harness/strategy/state.hpp"

namespace zp {
namespace {

class Zero2 final : public Strategy {
 public:
  explicit Zero2(Rig& rig)
      : rig_(rig),
        params_(rig, Category::params, rig.training.recipe.params, Extent::whole),
        sums_(rig, Extent::slice),
        locals_(rig),
        reductions_(rig, Extent::slice, [this](int unit) { keep_mine(unit); }),
        optimizer_(rig, Extent::slice),
        norm_(rig),
        updated_(rig, params_) {
    optimizer_.initialise(params_);
  }

  void begin_micro_step(const Visit& visit) override {
    reductions_.finish();
    sums_.begin_micro_step(visit);
  }
  // The last reduction of the micro-step before.
  void before_forward(int unit) override {
    if (unit == kUsesAhead) reductions_.catch_up();
  }
  void after_forward(int) override {}

  void before_backward(int unit) override { locals_.acquire(unit); }

  void after_backward(int unit) override {
    if (rig_.layout.unit(unit).frozen) return;
    reductions_.reduce_scatter(unit, locals_.whole(unit), sums_.target(unit), sums_.place_divisor());
  }

  View params(int unit) override { return params_.all(unit); }
  View grads(int unit) override { return locals_.whole(unit); }
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
    return runs;
  }

  Reduction reduction() const override { return Reduction::every_micro_step; }

 private:
  // A unit's reduction is over: the slice is added up, the rest dropped.
  void keep_mine(int unit) {
    sums_.add(unit, static_cast<float>(rig_.training.batching.micro_batches));
    locals_.drop(unit);
  }

  Rig& rig_;
  UnitState params_;
  GradientSums sums_;
  LocalGradients locals_;
  Reductions reductions_;
  Optimizer optimizer_;
  GradientNorm norm_;
  UpdatedParams updated_;
};

}  // namespace

std::unique_ptr<Strategy> make_zero2(Rig& rig) { return std::make_unique<Zero2>(rig); }

}  // namespace zp
