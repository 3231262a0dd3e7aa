// ZeRO-3: every rank holds its own slice of everything. A unit's parameters are gathered before each use and
// dropped after it (zero3), or kept from forward to backward: the last units where so many are asked for, or
// all of them (zero3-keep: a pass less, the whole parameters more).
#include "harness/strategy/state.hpp"

namespace zp {
namespace {

class Zero3 final : public Strategy {
 public:
  Zero3(Rig& rig, int keep)
      : rig_(rig),
        params_(rig, Category::params, rig.training.recipe.params, Extent::slice),
        gathered_(rig, params_, keep),
        sums_(rig, Extent::slice),
        locals_(rig),
        reductions_(rig, Extent::slice, [this](int unit) { keep_mine(unit); }),
        optimizer_(rig, Extent::slice),
        norm_(rig) {
    optimizer_.initialise(params_);
  }

  void begin_micro_step(const Visit& visit) override {
    reductions_.finish();
    sums_.begin_micro_step(visit);
    gathered_.begin_micro_step();
  }

  void before_forward(int unit) override { gathered_.before(unit); }

  void after_forward(int unit) override { gathered_.after(unit); }

  void before_backward(int unit) override {
    gathered_.before(unit);
    locals_.acquire(unit);
  }

  void after_backward(int unit) override {
    if (!rig_.layout.unit(unit).frozen) {
      reductions_.reduce_scatter(unit, locals_.whole(unit), sums_.target(unit), sums_.place_divisor());
    }
    gathered_.after(unit);
  }

  View params(int unit) override { return gathered_.all(unit); }
  View grads(int unit) override { return locals_.whole(unit); }
  void finish_reductions() override { reductions_.finish(); }

  double step() override {
    const double norm = norm_(sums_.sum());
    optimizer_.begin_step(norm);
    for (const int unit : rig_.layout.trained()) {
      optimizer_.update(unit, sums_.sum().mine(unit), params_.mine(unit));
    }
    return norm;
  }

  std::vector<StateRun> own_state() override { return own_runs(rig_, params_, sums_.sum(), optimizer_); }
  std::vector<StateRun> replicas() override { return {}; }
  Reduction reduction() const override { return Reduction::every_micro_step; }

 private:
  // A unit's reduction is over: the slice is added up, the rest dropped.
  void keep_mine(int unit) {
    sums_.add(unit, static_cast<float>(rig_.training.batching.micro_batches));
    locals_.drop(unit);
  }

  Rig& rig_;
  UnitState params_;
  Gathered gathered_;
  GradientSums sums_;
  LocalGradients locals_;
  Reductions reductions_;
  Optimizer optimizer_;
  GradientNorm norm_;
};

}  // namespace

std::unique_ptr<Strategy> make_zero3(Rig& rig) { return std::make_unique<Zero3>(rig, rig.training.keep); }

std::unique_ptr<Strategy> make_zero3_keep(Rig& rig) {
  return std::make_unique<Zero3>(rig, rig.layout.unit_count());
}

}  // namespace zp
