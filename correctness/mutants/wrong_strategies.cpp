// Stages that are wrong on purpose: each overrides one hook of a right one.
#include "correctness/mutants/wrong_strategies.hpp"

#include "harness/strategy/state.hpp"

namespace zp::mutants {
namespace {

// zero2 from the same pieces as the product's, with its step open to mischief.
class OpenZero2 : public Strategy {
 public:
  explicit OpenZero2(Rig& rig)
      : rig_(rig),
        params_(rig, Category::params, rig.training.recipe.params, Extent::whole),
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
  }
  void before_forward(int) override {}
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
      update(unit);
      gather(unit);
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

 protected:
  void update(int unit) { optimizer_.update(unit, sums_.sum().mine(unit), params_.mine(unit)); }
  void gather(int unit) {
    rig_.transport
        .all_gather({.mine = params_.mine(unit),
                     .whole = params_.all(unit),
                     .cuts = cuts_of(rig_, unit),
                     .label = label_of(rig_, Purpose::gather_params, unit)})
        .wait();
  }

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
};

class GathersTooEarly final : public OpenZero2 {
 public:
  using OpenZero2::OpenZero2;
  double step() override {
    const double norm = norm_(sums_.sum());
    optimizer_.begin_step(norm);
    for (const int unit : rig_.layout.trained()) {
      gather(unit);
      update(unit);
    }
    return norm;
  }
};

class CountsStepsPerUnit final : public OpenZero2 {
 public:
  using OpenZero2::OpenZero2;
  double step() override {
    const double norm = norm_(sums_.sum());
    for (const int unit : rig_.layout.trained()) {
      optimizer_.begin_step(norm);
      update(unit);
      gather(unit);
    }
    return norm;
  }
};

class SkipsLastUnit final : public OpenZero2 {
 public:
  using OpenZero2::OpenZero2;
  double step() override {
    const double norm = norm_(sums_.sum());
    optimizer_.begin_step(norm);
    for (const int unit : rig_.layout.trained()) {
      if (unit != rig_.layout.trained().back()) update(unit);
      gather(unit);
    }
    return norm;
  }
};

// The gathered sums are replaced by the own one before they are read.
class OwnNormTransport final : public Transport {
 public:
  explicit OwnNormTransport(Transport& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int place() const override { return inner_.place(); }
  int world() const override { return inner_.world(); }
  Handle reduce_scatter(const ReduceScatter& call) override { return inner_.reduce_scatter(call); }
  Handle all_reduce(const AllReduce& call) override { return inner_.all_reduce(call); }
  void poll() override { inner_.poll(); }
  Handle all_gather(const AllGather& call) override {
    Handle handle = inner_.all_gather(call);
    if (call.label.purpose != Purpose::grad_norm) return handle;
    handle.wait();
    int64_t* limbs = call.whole.write<int64_t>();
    for (int64_t i = 0; i < call.whole.length().n; ++i) {
      if (i / 6 != inner_.place()) limbs[i] = 0;
    }
    return {};
  }

 private:
  Transport& inner_;
};

class ClipsByOwnNorm final : public Strategy {
 public:
  explicit ClipsByOwnNorm(Rig& rig)
      : transport_(rig.transport),
        rig_{.device = rig.device,
             .kernels = rig.kernels,
             .transport = transport_,
             .layout = rig.layout,
             .training = rig.training},
        inner_(rig_) {}
  void begin_micro_step(const Visit& visit) override { inner_.begin_micro_step(visit); }
  void before_forward(int unit) override { inner_.before_forward(unit); }
  void after_forward(int unit) override { inner_.after_forward(unit); }
  void before_backward(int unit) override { inner_.before_backward(unit); }
  void after_backward(int unit) override { inner_.after_backward(unit); }
  View params(int unit) override { return inner_.params(unit); }
  View grads(int unit) override { return inner_.grads(unit); }
  void finish_reductions() override { inner_.finish_reductions(); }
  double step() override { return inner_.step(); }
  std::vector<StateRun> own_state() override { return inner_.own_state(); }
  std::vector<StateRun> replicas() override { return inner_.replicas(); }
  Reduction reduction() const override { return inner_.reduction(); }

 private:
  OwnNormTransport transport_;
  Rig rig_;
  OpenZero2 inner_;
};

class TakesOtherMicroBatches final : public OpenZero2 {
 public:
  using OpenZero2::OpenZero2;
  Reduction reduction() const override { return Reduction::after_accumulation; }
};

class LeaksALittle final : public OpenZero2 {
 public:
  using OpenZero2::OpenZero2;
  double step() override {
    if (steps_++ > 0) kept_.push_back(rig_.device.acquire(Category::grads, Type::f32, {1}));
    return OpenZero2::step();
  }

 private:
  int steps_ = 0;
  std::vector<Buffer> kept_;
};

class KeepsGatheredUnits final : public Strategy {
 public:
  explicit KeepsGatheredUnits(Rig& rig) : rig_(rig), inner_(make_zero3(rig)) {}
  void begin_micro_step(const Visit& visit) override { inner_->begin_micro_step(visit); }
  void before_forward(int unit) override { inner_->before_forward(unit); }
  void after_forward(int unit) override {
    // Whole parameters of its own beside the gathered ones, from forward to backward.
    kept_.push_back(
        rig_.device.acquire(Category::gathered, rig_.training.recipe.params, rig_.layout.unit(unit).padded));
    inner_->after_forward(unit);
  }
  void before_backward(int unit) override {
    kept_.pop_back();
    inner_->before_backward(unit);
  }
  void after_backward(int unit) override { inner_->after_backward(unit); }
  View params(int unit) override { return inner_->params(unit); }
  View grads(int unit) override { return inner_->grads(unit); }
  void finish_reductions() override { inner_->finish_reductions(); }
  double step() override { return inner_->step(); }
  std::vector<StateRun> own_state() override { return inner_->own_state(); }
  std::vector<StateRun> replicas() override { return {}; }
  Reduction reduction() const override { return Reduction::every_micro_step; }

 private:
  Rig& rig_;
  std::unique_ptr<Strategy> inner_;
  std::vector<Buffer> kept_;
};

// Adds micro-steps, which come in turn, in pairs.
class FoldsMicroSteps final : public Strategy {
 public:
  explicit FoldsMicroSteps(Rig& rig)
      : training_(folding(rig.training)),
        rig_{.device = rig.device,
             .kernels = rig.kernels,
             .transport = rig.transport,
             .layout = rig.layout,
             .training = training_},
        inner_(make_zero2(rig_)) {}
  void begin_micro_step(const Visit& visit) override {
    Visit other = visits(training_.batching)[static_cast<size_t>(visit.element)];
    other.element = visit.element;
    inner_->begin_micro_step(other);
  }
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

 private:
  static Training folding(Training training) {
    training.batching.accumulate = Accumulate::fold;
    return training;
  }

  Training training_;
  Rig rig_;
  std::unique_ptr<Strategy> inner_;
};

}  // namespace

std::unique_ptr<Strategy> open_zero2(Rig& rig) { return std::make_unique<OpenZero2>(rig); }
std::unique_ptr<Strategy> folds_micro_steps(Rig& rig) { return std::make_unique<FoldsMicroSteps>(rig); }
std::unique_ptr<Strategy> gathers_too_early(Rig& rig) { return std::make_unique<GathersTooEarly>(rig); }
std::unique_ptr<Strategy> counts_steps_per_unit(Rig& rig) {
  return std::make_unique<CountsStepsPerUnit>(rig);
}
std::unique_ptr<Strategy> skips_last_unit(Rig& rig) { return std::make_unique<SkipsLastUnit>(rig); }
std::unique_ptr<Strategy> clips_by_own_norm(Rig& rig) { return std::make_unique<ClipsByOwnNorm>(rig); }
std::unique_ptr<Strategy> keeps_gathered_units(Rig& rig) { return std::make_unique<KeepsGatheredUnits>(rig); }
std::unique_ptr<Strategy> leaks_a_little(Rig& rig) { return std::make_unique<LeaksALittle>(rig); }
std::unique_ptr<Strategy> takes_other_micro_batches(Rig& rig) {
  return std::make_unique<TakesOtherMicroBatches>(rig);
}

}  // namespace zp::mutants
