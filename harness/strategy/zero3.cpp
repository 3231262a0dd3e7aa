// ZeRO-3: every rank holds its own slice of everything. A unit's parameters are gathered before each use and
// dropped after it (zero3), or kept from forward to backward (zero3-keep: a pass less, the whole parameters
// more).
#include "harness/strategy/state.hpp"

namespace zp {
namespace {

enum class Keep { no, until_backward };

class Zero3 final : public Strategy {
 public:
  Zero3(Rig& rig, Keep keep)
      : rig_(rig),
        keep_(keep),
        params_(rig, Category::params, rig.training.recipe.params, Extent::slice),
        gathered_(rig),
        sums_(rig, Extent::slice),
        optimizer_(rig, Extent::slice),
        norm_(rig) {
    optimizer_.initialise(params_);
  }

  void begin_micro_step(const Visit& visit) override { sums_.begin_micro_step(visit); }

  void before_forward(int unit) override { gathered_.gather(unit, params_.mine(unit)); }

  void after_forward(int unit) override {
    if (keep_ == Keep::no) gathered_.drop(unit);
  }

  void before_backward(int unit) override {
    if (keep_ == Keep::no) gathered_.gather(unit, params_.mine(unit));
    bucket_.acquire(rig_, unit);
  }

  void after_backward(int unit) override {
    bucket_.reduce_into(rig_, unit, sums_);
    bucket_.drop();
    gathered_.drop(unit);
  }

  View params(int unit) override { return gathered_.all(unit); }
  View grads(int unit) override { return bucket_.whole(unit); }
  void finish_reductions() override {}

  double step() override {
    const double norm = norm_(sums_.sum());
    optimizer_.begin_step(norm);
    for (int unit = 0; unit < rig_.layout.unit_count(); ++unit) {
      optimizer_.update(unit, sums_.sum().mine(unit), params_.mine(unit));
    }
    return norm;
  }

  std::vector<StateRun> own_state() override { return own_runs(rig_, params_, sums_.sum(), optimizer_); }
  std::vector<StateRun> replicas() override { return {}; }
  Reduction reduction() const override { return Reduction::every_micro_step; }

 private:
  Rig& rig_;
  Keep keep_;
  UnitState params_;
  Gathered gathered_;
  GradientSums sums_;
  Bucket bucket_;
  Optimizer optimizer_;
  GradientNorm norm_;
};

}  // namespace

std::unique_ptr<Strategy> make_zero3(Rig& rig) { return std::make_unique<Zero3>(rig, Keep::no); }

std::unique_ptr<Strategy> make_zero3_keep(Rig& rig) {
  return std::make_unique<Zero3>(rig, Keep::until_backward);
}

}  // namespace zp
