// Mutants that hold or touch memory where neither the largest total nor any result shows it: units dropped
// late, buffers taken for nothing, padding that is not zero.
#include <algorithm>

#include "correctness/mutants/cases.hpp"
#include "correctness/mutants/misled.hpp"
#include "harness/strategy/state.hpp"

namespace zp::mutants {
namespace {

// Gives gathered units back one use late in the forward passes of chosen micro-steps; two are held together,
// which is less than backward holds.
class LateDevice final : public Device {
 public:
  // `late` says for which unit of which micro-step of the run.
  using Late = std::function<bool(int micro_step, int unit)>;
  LateDevice(Device& inner, Late late) : inner_(inner), late_(std::move(late)) {}
  ~LateDevice() override { give_back(); }

  void* allocate(Category category, Bytes bytes) override { return inner_.allocate(category, bytes); }
  FarMemory* far_memory() override { return inner_.far_memory(); }
  void release(Category category, void* data, Bytes bytes) noexcept override {
    if (category != Category::gathered) return inner_.release(category, data, bytes);
    give_back();
    constexpr int kUnits = kLastUnit + 1;
    const int use = uses_ % (2 * kUnits);
    const int micro_step = uses_++ / (2 * kUnits);
    if (use < kLastUnit && late_(micro_step, use)) {
      data_ = data;
      bytes_ = bytes;
    } else {
      inner_.release(category, data, bytes);
    }
  }

 private:
  void give_back() noexcept {
    if (data_ != nullptr) inner_.release(Category::gathered, data_, bytes_);
    data_ = nullptr;
  }

  Device& inner_;
  Late late_;
  int uses_ = 0;
  void* data_ = nullptr;
  Bytes bytes_;
};

std::function<Faults(int)> late(LateDevice::Late which) {
  return [which](int) {
    Faults faults;
    faults.device = [which](Device& inner) { return std::make_unique<LateDevice>(inner, which); };
    return faults;
  };
}

class TakesSlackInStep final : public Misled {
 public:
  explicit TakesSlackInStep(Rig& rig) : Misled(rig, make_zero3(rig)) {}
  double step() override {
    const double norm = inner_->step();
    for (int unit = 0; unit < rig_.layout.unit_count(); ++unit) take_for_nothing(unit, 2);
    return norm;
  }
};

class TakesEveryUnitTwice final : public Misled {
 public:
  explicit TakesEveryUnitTwice(Rig& rig) : Misled(rig, make_zero3(rig)) {}
  void after_forward(int unit) override {
    inner_->after_forward(unit);
    take_for_nothing(unit, 1);
  }
};

// Writes into the padding of a rank's own slice of one kind after every step; for parameters before the
// gather that follows the next step.
template <HashKind kind>
class FillsPadding final : public Misled {
 public:
  explicit FillsPadding(Rig& rig) : Misled(rig, make_zero2(rig)) {}
  double step() override {
    for (const StateRun& run : inner_->own_state()) {
      if (run.kind != kind) continue;
      const Elements logical = std::max(rig_.layout.unit(run.unit).length - run.in_unit.begin, Elements{0});
      if (logical >= run.view.length()) continue;
      const View padding = run.view.part({logical, run.view.length()});
      if (padding.type() == Type::bf16) {
        std::fill_n(padding.write<bf16>(), padding.length().n, bf16{0x4242});
      } else {
        std::fill_n(padding.write<float>(), padding.length().n, -0.0F);
      }
    }
    return inner_->step();
  }
};

// Parameters that need no master, and one that is kept for them all the same.
class KeepsAMaster final : public Misled {
 public:
  explicit KeepsAMaster(Rig& rig)
      : Misled(rig, make_zero1(rig)), master_(rig, Category::optimizer, Type::f32, Extent::slice) {}

 private:
  UnitState master_;
};

// ---- Cases

Case units_dropped_late_in_forward() {
  Trial m{.name = "UnitsDroppedLateInForward", .stage = "zero3", .world = 2};
  m.faults = late([](int, int) { return true; });
  return {m, {Claim::memory}, "gathered"};
}

// block.2 beside the head, gathered for forward and ahead for backward, is less than the two blocks that
// prefetch holds elsewhere; and every other micro-step is right.
Case one_unit_dropped_late_once() {
  Trial m{.name = "OneUnitDroppedLateOnce", .stage = "zero3", .world = 2, .micro_batches = 6};
  m.schedule.prefetch = 1;
  m.faults = late([](int micro_step, int unit) { return micro_step == 1 && unit == 3; });
  return {m, {Claim::memory}, "after forward of block.2"};
}

Case slack_taken_in_step() {
  return {{.name = "SlackTakenInStep", .stage = "zero3", .world = 2, .make = make<TakesSlackInStep>},
          {Claim::memory},
          "gathered"};
}

Case every_unit_taken_twice() {
  return {{.name = "EveryUnitTakenTwice", .stage = "zero3", .world = 2, .make = make<TakesEveryUnitTwice>},
          {Claim::memory},
          "acquired"};
}

Case padding_of_params_written() {
  return {{.name = "PaddingOfParamsWritten",
           .stage = "zero2",
           .world = 4,
           .fill = Fill::zero,
           .make = make<FillsPadding<HashKind::param>>},
          {Claim::bits},
          "padding of parameters"};
}

Case padding_of_masters_written() {
  return {{.name = "PaddingOfMastersWritten",
           .stage = "zero2",
           .world = 3,
           .fill = Fill::zero,
           .make = make<FillsPadding<HashKind::master>>},
          {Claim::bits},
          "padding of masters"};
}

Case master_of_fp32_parameters_kept() {
  return {{.name = "MasterOfFp32ParametersKept",
           .stage = "zero1",
           .world = 3,
           .recipe = "fp32",
           .make = make<KeepsAMaster>},
          {Claim::memory},
          "after init, optimizer: got"};
}

}  // namespace

std::vector<Case> holding_mutants() {
  return {units_dropped_late_in_forward(), one_unit_dropped_late_once(), slack_taken_in_step(),
          every_unit_taken_twice(),        padding_of_params_written(),  padding_of_masters_written(),
          master_of_fp32_parameters_kept()};
}

}  // namespace zp::mutants
