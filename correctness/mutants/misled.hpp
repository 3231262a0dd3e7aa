// A strategy that goes wrong around a right one.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "harness/strategy/strategy.hpp"

namespace zp::mutants {

// A right strategy, with hooks to go wrong in.
class Misled : public Strategy {
 public:
  Misled(Rig& rig, std::unique_ptr<Strategy> inner) : rig_(rig), inner_(std::move(inner)) {}
  void begin_micro_step(const Visit& visit) override { inner_->begin_micro_step(visit); }
  void before_forward(int unit) override { inner_->before_forward(unit); }
  void after_forward(int unit) override { inner_->after_forward(unit); }
  void before_backward(int unit) override { inner_->before_backward(unit); }
  void after_backward(int unit) override { inner_->after_backward(unit); }
  View params(int unit) override { return inner_->params(unit); }
  View grads(int unit) override { return inner_->grads(unit); }
  void finish_reductions() override { inner_->finish_reductions(); }
  double step() override { return inner_->step(); }
  std::vector<StateRun> own_state() override { return inner_->own_state(); }
  std::vector<StateRun> replicas() override { return inner_->replicas(); }
  Reduction reduction() const override { return inner_->reduction(); }

 protected:
  void take_for_nothing(int unit, int wholes) {
    rig_.device.acquire(Category::gathered, rig_.training.recipe.params,
                        {wholes * rig_.layout.unit(unit).padded.n});
  }

  Rig& rig_;
  std::unique_ptr<Strategy> inner_;
};

template <class Wrong>
std::unique_ptr<Strategy> make(Rig& rig) {
  return std::make_unique<Wrong>(rig);
}

}  // namespace zp::mutants
