// What strategies are made of where ranks talk: gathers that run ahead, reductions under way, updated
// parameters.
#include "harness/strategy/state.hpp"

namespace zp {
namespace {

bool overlaps(const Rig& rig) { return rig.training.schedule.overlap == Overlap::on; }

}  // namespace

// ---- Gathered

Gathered::Gathered(Rig& rig, const UnitState& slices, Keep keep)
    : rig_(rig), slices_(slices), keep_(keep), uses_(uses(rig.layout)) {
  slots_.resize(kept() ? static_cast<size_t>(rig.layout.unit_count()) : uses_.size());
}

void Gathered::begin_micro_step() { use_ = started_ = 0; }

// Kept: forward uses come first, in unit order, so the n-th gather is unit n's.
size_t Gathered::slot_of(size_t use) const { return kept() ? static_cast<size_t>(uses_[use].unit) : use; }

void Gathered::start(size_t gather) {
  const int unit = uses_[gather].unit;
  Slot& slot = slots_[gather];
  require(!slot.whole.held(), "a unit is gathered once at a time");
  slot.whole =
      rig_.device.acquire(Category::gathered, rig_.training.recipe.params, rig_.layout.unit(unit).padded);
  slot.gather = rig_.transport.all_gather({.mine = slices_.mine(unit),
                                           .whole = slot.whole.all(),
                                           .cuts = cuts_of(rig_, unit),
                                           .label = label_of(rig_, Purpose::gather_params, unit)});
  if (!overlaps(rig_)) slot.gather.wait();
}

void Gathered::before(int unit) {
  require(use_ < uses_.size() && uses_[use_].unit == unit, "units are used in the order of the model");
  const size_t ahead = use_ + 1 + static_cast<size_t>(rig_.training.schedule.prefetch);
  while (started_ < slots_.size() && started_ < ahead) start(started_++);
  slots_[slot_of(use_)].gather.wait();
}

void Gathered::after(int unit) {
  require(uses_[use_].unit == unit, "a use ends before the next begins");
  if (!kept() || uses_[use_].pass == Pass::backward) slots_[slot_of(use_)].whole.drop();
  ++use_;
}

View Gathered::all() const {
  const Buffer& whole = slots_[slot_of(use_)].whole;
  require(whole.held(), "a unit is gathered before it is used");
  return whole.all();
}

// ---- LocalGradients

void LocalGradients::acquire(int unit) {
  Buffer& whole = wholes_[static_cast<size_t>(unit)];
  require(!whole.held(), "a unit's gradient is reduced before the next one");
  whole = rig_.device.acquire(Category::bucket, rig_.training.recipe.grads, rig_.layout.unit(unit).padded);
}

View LocalGradients::whole(int unit) const {
  const Buffer& whole = wholes_[static_cast<size_t>(unit)];
  require(whole.held(), "a unit's gradient lies between its backward and its reduction");
  return whole.all();
}

// ---- Reductions

template <class Start>
void Reductions::begin(int unit, const Start& start) {
  finish();
  unit_ = unit;
  const UnitLayout& layout = rig_.layout.unit(unit);
  const Training& training = rig_.training;
  for (const Range& bucket :
       bucket_ranges(layout, rig_.layout.world(), size_of(training.recipe.grads), training.schedule.bucket)) {
    Cuts cuts = cuts_of(rig_, unit);
    if (bucket.length() < layout.slice) cuts.within = bucket;
    handles_.push_back(start(cuts, bucket));
    if (!overlaps(rig_)) handles_.back().wait();
  }
  if (!overlaps(rig_)) finish();
}

void Reductions::reduce_scatter(int unit, const View& whole, const View& mine, float divisor) {
  begin(unit, [&](const Cuts& cuts, Range bucket) {
    return rig_.transport.reduce_scatter({.whole = whole,
                                          .mine = mine.part(bucket),
                                          .cuts = cuts,
                                          .divisor = divisor,
                                          .label = label_of(rig_, Purpose::reduce_grads, unit)});
  });
}

void Reductions::all_reduce(int unit, const View& whole, float divisor) {
  begin(unit, [&](const Cuts& cuts, Range) {
    return rig_.transport.all_reduce({.whole = whole,
                                      .cuts = cuts,
                                      .divisor = divisor,
                                      .label = label_of(rig_, Purpose::reduce_grads, unit)});
  });
}

void Reductions::finish() {
  if (unit_ < 0) return;
  for (Handle& handle : handles_) handle.wait();
  handles_.clear();
  const int unit = std::exchange(unit_, -1);
  if (finished_) finished_(unit);
}

// ---- UpdatedParams

void UpdatedParams::gather(int unit) {
  finish();
  handle_ = rig_.transport.all_gather({.mine = params_.mine(unit),
                                       .whole = params_.all(unit),
                                       .cuts = cuts_of(rig_, unit),
                                       .label = label_of(rig_, Purpose::gather_params, unit)});
  if (!overlaps(rig_)) finish();
}

}  // namespace zp
