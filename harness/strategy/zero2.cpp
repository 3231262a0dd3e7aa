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
        optimizer_(rig, Extent::slice),
        norm_(rig) {
    optimizer_.initialise(params_);
  }

  void begin_micro_step(const Visit& visit) override { sums_.begin_micro_step(visit); }
  void before_forward(int) override {}
  void after_forward(int) override {}

  void before_backward(int unit) override { bucket_.acquire(rig_, unit); }

  void after_backward(int unit) override {
    bucket_.reduce_into(rig_, unit, sums_);
    bucket_.drop();
  }

  View params(int unit) override { return params_.all(unit); }
  View grads(int unit) override { return bucket_.whole(unit); }
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
    return runs;
  }

  Reduction reduction() const override { return Reduction::every_micro_step; }

 private:
  Rig& rig_;
  UnitState params_;
  GradientSums sums_;
  Bucket bucket_;
  Optimizer optimizer_;
  GradientNorm norm_;
};

}  // namespace

std::unique_ptr<Strategy> make_zero2(Rig& rig) { return std::make_unique<Zero2>(rig); }

}  // namespace zp
