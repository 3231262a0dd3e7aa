// What strategies are made of.
#include "harness/strategy/state.hpp"

#include <algorithm>
#include <cmath>

#include "harness/device/host_access.hpp"
#include "harness/model/model.hpp"
#include "kernels/norm.hpp"

namespace zp {
namespace {

Elements largest(const Rig& rig, Extent extent) {
  Elements most;
  for (const int trained : rig.layout.trained()) {
    const UnitLayout& unit = rig.layout.unit(trained);
    most = std::max(most, extent == Extent::whole ? unit.padded : unit.slice);
  }
  return most;
}

// The logical part of `range` of a unit, and where it lies in a view of that range.
Range logical_part(const UnitLayout& unit, Range range) {
  return {{0}, std::max(std::min(range.end, unit.length) - range.begin, Elements{0})};
}

}  // namespace

Range extent_range(const Rig& rig, int unit, Extent extent) {
  const UnitLayout& layout = rig.layout.unit(unit);
  return extent == Extent::whole ? Range{{0}, layout.padded} : layout.slice_of(rig.transport.place());
}

Label label_of(const Rig& rig, Purpose purpose, int unit) {
  return {.purpose = purpose, .tensor = unit, .name = rig.layout.unit(unit).name};
}

Cuts cuts_of(const Rig& rig, int unit) {
  return Cuts::equal(rig.layout.world(), rig.layout.unit(unit).slice);
}

void clear_padding(Rig& rig, int unit, const View& whole) {
  const UnitLayout& layout = rig.layout.unit(unit);
  if (layout.length == layout.padded) return;
  kernels::Initialize zeros;
  zeros.x = whole.part({layout.length, layout.padded});
  rig.kernels.run(zeros);
}

// ---- UnitState

UnitState::UnitState(Rig& rig, Category category, Type type, Extent extent) : rig_(rig), extent_(extent) {
  for (const UnitLayout& unit : rig.layout.units()) {
    const bool has_state = !unit.frozen || category == Category::params;
    buffers_.push_back(
        has_state ? rig.device.acquire(category, type, extent_range(rig, unit.index, extent).length())
                  : Buffer());
  }
}

View UnitState::mine(int unit) const {
  if (extent_ == Extent::slice) return all(unit);
  return all(unit).part(extent_range(rig_, unit, Extent::slice));
}

// ---- GradientSums

GradientSums::GradientSums(Rig& rig, Extent extent) : rig_(rig), extent_(extent) {
  const Batching& batching = rig.training.batching;
  last_element_ = visits(batching).back().element;
  const Type type = rig.training.recipe.grads;
  buffers_.emplace_back(rig, Category::grads, type, extent);
  borrowed_.resize(static_cast<size_t>(rig.layout.unit_count()));
  const bool several = batching.micro_steps() > 1;
  if (rig.training.fixed_point()) {
    if (several) fixed_.emplace_back(rig, Category::fold, Type::i64, extent);
    if (several && extent == Extent::slice)
      scratch_ = rig.device.acquire(Category::fold, Type::i64, largest(rig, extent));
    return;
  }
  for (int i = 0; i < extra_buffers(batching); ++i) {
    buffers_.emplace_back(rig, Category::fold, type, extent);
  }
  if (several) scratch_ = rig.device.acquire(Category::fold, type, largest(rig, extent));
}

void GradientSums::before_backward(int unit) {
  const int borrowed = rig_.layout.unit(unit).borrows;
  if (!scratch_.held() || borrowed < 0 || rig_.layout.unit(borrowed).frozen) return;
  borrowed_[static_cast<size_t>(borrowed)] = rig_.device.acquire(
      Category::fold, rig_.training.recipe.grads, extent_range(rig_, borrowed, extent_).length());
}

View GradientSums::target(int unit) const {
  if (!fixed_.empty()) {
    if (extent_ == Extent::whole) return buffers_.front().all(unit);
    if (is_first_micro_step()) return fixed_.front().all(unit);
    return scratch_.part({{0}, extent_range(rig_, unit, extent_).length()});
  }
  if (visit_.first) return buffers_[static_cast<size_t>(visit_.target)].all(unit);
  const Buffer& own = borrowed_[static_cast<size_t>(unit)];
  if (own.held()) return own.all();
  return scratch_.part({{0}, extent_range(rig_, unit, extent_).length()});
}

float GradientSums::place_divisor() const {
  const Batching& batching = rig_.training.batching;
  return batching.micro_steps() == 1 ? static_cast<float>(batching.micro_batches) : 1.0F;
}

void GradientSums::add(int unit, float divisor) {
  if (!fixed_.empty()) return add_fixed(unit, divisor);
  const bool last = is_last_micro_step();
  const size_t merges = visit_.merges.size();
  if (!visit_.first) {
    const View sum = buffers_[static_cast<size_t>(visit_.target)].all(unit);
    // A slice arrives with its padding; a whole unit is written by the model, which leaves padding alone:
    // what a longer unit left in the scratch must not pass for it.
    if (extent_ == Extent::whole) clear_padding(rig_, unit, target(unit));
    add_into(sum, target(unit), last && merges == 0 ? divisor : 1.0F);
  }
  for (size_t i = 0; i < merges; ++i) {
    const Visit::Merge& merge = visit_.merges[i];
    add_into(buffers_[static_cast<size_t>(merge.into)].all(unit),
             buffers_[static_cast<size_t>(merge.from)].all(unit), last && i + 1 == merges ? divisor : 1.0F);
  }
  borrowed_[static_cast<size_t>(unit)].drop();
}

void GradientSums::add_fixed(int unit, float divisor) {
  const View sum = fixed_.front().all(unit);
  if (extent_ == Extent::whole) {
    clear_padding(rig_, unit, target(unit));
    rig_.kernels.run(kernels::ToFixed{
        .from = target(unit),
        .to = sum,
        .terms = rig_.training.batching.micro_batches,
        .write = is_first_micro_step() ? kernels::Write::overwrite : kernels::Write::accumulate});
    return;
  }
  if (is_first_micro_step()) return;
  const bool last = is_last_micro_step();
  rig_.kernels.run(kernels::Fold{.inputs = {sum, target(unit)},
                                 .out = last ? buffers_.front().all(unit) : sum,
                                 .divisor = last ? divisor : 1.0F});
}

void GradientSums::add_into(const View& sum, const View& term, float divisor) {
  rig_.kernels.run(kernels::Fold{.inputs = {sum, term}, .out = sum, .divisor = divisor});
}

// ---- Optimizer

Optimizer::Optimizer(Rig& rig, Extent extent) : rig_(rig), extent_(extent) {
  const Training& training = rig.training;
  const auto keep = [&](HashKind kind) {
    states_.push_back({.kind = kind, .values = UnitState(rig, Category::optimizer, Type::f32, extent)});
  };
  if (has_master(training.recipe)) keep(HashKind::master);
  keep(HashKind::m);
  if (has_second_moments(training.optimizer)) keep(HashKind::v);
  adamw_.lr = sgd_.lr = training.lr;
  adamw_.beta1 = training.beta1;
  adamw_.beta2 = training.beta2;
  adamw_.epsilon = training.epsilon;
  sgd_.momentum = training.momentum;
}

View Optimizer::state(HashKind kind, int unit) const {
  const auto found = std::ranges::find(states_, kind, &OptimizerState::kind);
  require(found != states_.end(), "an optimizer is asked for a state that it keeps");
  return found->values.all(unit);
}

void Optimizer::initialise(const UnitState& params) {
  for (const UnitLayout& unit : rig_.layout.units()) {
    if (has_master(rig_.training.recipe)) {
      fill_with_master(unit, params);
    } else {
      fill(unit, extent_range(rig_, unit.index, params.extent()), params.all(unit.index));
    }
    const Range moments = logical_part(unit, extent_range(rig_, unit.index, extent_));
    for (const OptimizerState& state : states_) {
      if (moments.empty() || state.kind == HashKind::master || unit.frozen) continue;
      kernels::Initialize zeros;
      zeros.x = state.values.all(unit.index).part(moments);
      rig_.kernels.run(zeros);
    }
  }
}

void Optimizer::fill(const UnitLayout& unit, Range covered, const View& into) {
  for (const TensorRun& run : runs(unit, covered)) {
    const TensorSpec& spec = run.tensor->spec;
    const Range part{run.in_unit.begin - covered.begin, run.in_unit.end - covered.begin};
    rig_.kernels.run(kernels::Initialize{.x = into.part(part),
                                         .init = spec.init,
                                         .scale = spec.scale,
                                         .key = init_key(rig_.training.seed, spec.name),
                                         .first = (run.in_unit.begin - run.tensor->in_unit.begin).n});
  }
}

void Optimizer::fill_with_master(const UnitLayout& unit, const UnitState& params) {
  const View master = state(HashKind::master, unit.index);
  if (!unit.frozen) fill(unit, extent_range(rig_, unit.index, extent_), master);
  // Frozen parameters, and those that lie outside the optimizer's extent, get their values through a passing
  // fp32 image.
  const Range range = extent_range(rig_, unit.index, params.extent());
  const bool own_master = params.extent() == extent_ && !unit.frozen;
  const Buffer image =
      own_master ? Buffer() : rig_.device.acquire(Category::workspace, Type::f32, range.length());
  if (!own_master) fill(unit, range, image.all());
  const Range logical = logical_part(unit, range);
  if (logical.empty()) return;
  const View from = own_master ? master : image.all();
  rig_.kernels.run(kernels::Cast{.from = from.part(logical), .to = params.all(unit.index).part(logical)});
}

void Optimizer::begin_step(double norm) {
  const Training& training = rig_.training;
  beta1_power_ *= static_cast<double>(training.beta1);
  beta2_power_ *= static_cast<double>(training.beta2);
  adamw_.clip = sgd_.clip = clip_factor(norm, training.clip);
  adamw_.correction1 = static_cast<float>(1.0 - beta1_power_);
  adamw_.correction2 = static_cast<float>(1.0 - beta2_power_);
}

void Optimizer::step(int unit, Range part, const View& grads, const View& exact, float decay) {
  const auto give = [&](auto call) {
    call.decay = decay;
    call.grads = grads.part(part);
    call.master = exact.part(part);
    call.m = state(HashKind::m, unit).part(part);
    return call;
  };
  if (rig_.training.optimizer == Method::sgd) return rig_.kernels.run(give(sgd_));
  kernels::AdamW call = give(adamw_);
  call.v = state(HashKind::v, unit).part(part);
  rig_.kernels.run(call);
}

void Optimizer::update(int unit, const View& grads, const View& params) {
  const UnitLayout& layout = rig_.layout.unit(unit);
  const Range range = extent_range(rig_, unit, extent_);
  const bool mastered = has_master(rig_.training.recipe);
  const View exact = mastered ? state(HashKind::master, unit) : params;
  for (const TensorRun& run : runs(layout, range)) {
    const Range part{run.in_unit.begin - range.begin, run.in_unit.end - range.begin};
    step(unit, part, grads, exact, decays(run.tensor->spec) ? rig_.training.weight_decay : 0.0F);
  }
  const Range logical = logical_part(layout, range);
  if (mastered && !logical.empty()) {
    rig_.kernels.run(kernels::Cast{.from = exact.part(logical), .to = params.part(logical)});
  }
}

// ---- GradientNorm

GradientNorm::GradientNorm(Rig& rig) : rig_(rig) {
  limbs_ = rig.device.acquire(Category::scalars, Type::i64, {6 * int64_t{rig.layout.world()}});
}

double GradientNorm::operator()(const UnitState& sums) {
  ExactSum mine;
  for (const int unit : rig_.layout.trained()) {
    const Range logical = logical_part(rig_.layout.unit(unit), extent_range(rig_, unit, Extent::slice));
    if (logical.empty()) continue;
    rig_.kernels.run(kernels::SquareSum{.grads = sums.mine(unit).part(logical), .sum = &mine});
  }
  const int64_t at = 6 * int64_t{rig_.transport.place()};
  const View slot = limbs_.part({{at}, {at + 6}});
  write_from_host<int64_t>(slot, mine.limbs());
  rig_.transport
      .all_gather({.mine = slot,
                   .whole = limbs_.all(),
                   .cuts = Cuts::equal(rig_.layout.world(), {6}),
                   .label = {.purpose = Purpose::grad_norm, .tensor = -1, .name = "gradient norm"}})
      .wait();
  ExactSum total;
  const HostView<int64_t> all(limbs_.all());
  for (int place = 0; place < rig_.layout.world(); ++place) {
    std::array<int64_t, 6> limbs{};
    std::copy_n(all.begin() + 6 * int64_t{place}, 6, limbs.begin());
    total.add_limbs(limbs);
  }
  return std::sqrt(total.value());
}

// ---- State runs

void append_mine(std::vector<StateRun>& runs, const Rig& rig, HashKind kind, const UnitState& state) {
  for (int unit = 0; unit < rig.layout.unit_count(); ++unit) {
    if (!state.holds(unit)) continue;
    runs.push_back({.kind = kind,
                    .unit = unit,
                    .in_unit = extent_range(rig, unit, Extent::slice),
                    .view = state.mine(unit)});
  }
}

void append_whole(std::vector<StateRun>& runs, const Rig& rig, HashKind kind, const UnitState& state) {
  for (int unit = 0; unit < rig.layout.unit_count(); ++unit) {
    if (!state.holds(unit)) continue;
    runs.push_back({.kind = kind,
                    .unit = unit,
                    .in_unit = extent_range(rig, unit, Extent::whole),
                    .view = state.all(unit)});
  }
}

std::vector<StateRun> own_runs(const Rig& rig, const UnitState& params, const UnitState& grads,
                               const Optimizer& optimizer) {
  std::vector<StateRun> runs;
  append_mine(runs, rig, HashKind::grad, grads);
  append_mine(runs, rig, HashKind::param, params);
  for (const OptimizerState& state : optimizer.states()) append_mine(runs, rig, state.kind, state.values);
  return runs;
}

}  // namespace zp
