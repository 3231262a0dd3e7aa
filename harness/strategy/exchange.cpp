// What strategies are made of where ranks talk: gathers that run ahead, reductions under way, updated
// parameters.
#include "harness/strategy/state.hpp"

#include <algorithm>

namespace zp {
namespace {

bool overlaps(const Rig& rig) { return rig.training.schedule.overlap == Overlap::on; }

std::vector<Range> buckets_of(const Rig& rig, const UnitLayout& unit) {
  const Training& training = rig.training;
  return bucket_ranges(unit, rig.layout.world(), size_of(training.recipe.grads), training.schedule.bucket);
}

}  // namespace

// ---- Gathered

Gathered::Gathered(Rig& rig, const UnitState& slices, int keep)
    : rig_(rig), slices_(slices), uses_(uses(rig.layout)) {
  for (size_t use = 0; use < uses_.size(); ++use) {
    for (const int unit : read_by(rig.layout, uses_[use].unit)) {
      plan(unit, use, unit >= rig.layout.unit_count() - keep);
    }
  }
}

void Gathered::plan(int unit, size_t use, bool kept) {
  for (Slot& slot : slots_) {
    if (!kept || slot.unit != unit) continue;
    slot.last = use;
    return;
  }
  slots_.push_back({.unit = unit, .first = use, .last = use, .whole = {}, .gather = {}});
}

void Gathered::begin_micro_step() { use_ = started_ = 0; }

void Gathered::start(Slot& slot) {
  require(!slot.whole.held(), "a unit is gathered once at a time");
  slot.whole = rig_.device.acquire(Category::gathered, rig_.training.recipe.params,
                                   rig_.layout.unit(slot.unit).padded);
  slot.gather = rig_.transport.all_gather({.mine = slices_.mine(slot.unit),
                                           .whole = slot.whole.all(),
                                           .cuts = cuts_of(rig_, slot.unit),
                                           .label = label_of(rig_, Purpose::gather_params, slot.unit)});
  if (!overlaps(rig_)) slot.gather.wait();
}

void Gathered::before(int unit) {
  require(use_ < uses_.size() && uses_[use_].unit == unit, "units are used in the order of the model");
  const size_t ahead = use_ + static_cast<size_t>(rig_.training.schedule.prefetch);
  while (started_ < slots_.size() && slots_[started_].first <= ahead) start(slots_[started_++]);
  for (Slot& slot : slots_) {
    if (serves(slot)) slot.gather.order();
    if (slot.first + size_t{kUsesAhead} <= use_) slot.gather.wait();
  }
}

void Gathered::after(int unit) {
  require(uses_[use_].unit == unit, "a use ends before the next begins");
  for (Slot& slot : slots_) {
    if (slot.last == use_) slot.whole.drop();
  }
  ++use_;
}

View Gathered::all(int unit) const {
  for (const Slot& slot : slots_) {
    if (slot.unit == unit && serves(slot) && slot.whole.held()) return slot.whole.all();
  }
  require(false, "a unit is gathered before it is used");
  return {};
}

// ---- LocalGradients

void LocalGradients::acquire(int unit) {
  for (const int written : read_by(rig_.layout, unit)) acquire_own(written);
}

// A unit that was borrowed holds the borrower's part already.
void LocalGradients::acquire_own(int unit) {
  const UnitLayout& layout = rig_.layout.unit(unit);
  Buffer& whole = wholes_[static_cast<size_t>(unit)];
  if (layout.frozen || whole.held()) return;
  whole = rig_.device.acquire(Category::bucket, rig_.training.recipe.grads, layout.padded);
}

View LocalGradients::whole(int unit) const {
  const Buffer& whole = wholes_[static_cast<size_t>(unit)];
  require(whole.held(), "a unit's gradient lies between its backward and its reduction");
  return whole.all();
}

// ---- Reductions

Reductions::Reductions(Rig& rig, Extent sums, std::function<void(int unit)> finished)
    : rig_(rig), finished_(std::move(finished)) {
  const Training& training = rig.training;
  const bool summed_before = sums == Extent::whole && training.batching.micro_steps() > 1;
  if (!training.fixed_point() || summed_before) return;
  Elements largest;
  for (const int trained : rig.layout.trained()) {
    for (const Range& bucket : buckets_of(rig, rig.layout.unit(trained)))
      largest = std::max(largest, bucket.length());
  }
  image_ = rig.device.acquire(Category::transport, Type::i64, largest * rig.layout.world());
}

FixedPoint Reductions::fixed_point_of(int unit, const View& summed) {
  if (!rig_.training.fixed_point() || summed.type() == Type::i64) return {};
  clear_padding(rig_, unit, summed);
  return {.image = image_.all(), .terms = rig_.training.batching.micro_batches};
}

template <class Start>
void Reductions::begin(int unit, const Start& start) {
  finish();
  unit_ = unit;
  const UnitLayout& layout = rig_.layout.unit(unit);
  for (const Range& bucket : buckets_of(rig_, layout)) {
    Cuts cuts = cuts_of(rig_, unit);
    if (bucket.length() < layout.slice) cuts.within = bucket;
    handles_.push_back(start(cuts, bucket));
    if (!overlaps(rig_)) handles_.back().wait();
  }
  if (!overlaps(rig_)) finish();
}

void Reductions::reduce_scatter(int unit, const View& whole, const View& mine, float divisor) {
  const FixedPoint fixed = fixed_point_of(unit, whole);
  begin(unit, [&](const Cuts& cuts, Range bucket) {
    return rig_.transport.reduce_scatter({.whole = whole,
                                          .mine = mine.part(bucket),
                                          .cuts = cuts,
                                          .divisor = divisor,
                                          .label = label_of(rig_, Purpose::reduce_grads, unit),
                                          .fixed = fixed});
  });
}

void Reductions::all_reduce(int unit, const View& summed, const View& whole, float divisor) {
  const FixedPoint fixed = fixed_point_of(unit, summed);
  begin(unit, [&](const Cuts& cuts, Range) {
    return rig_.transport.all_reduce({.whole = whole,
                                      .cuts = cuts,
                                      .divisor = divisor,
                                      .label = label_of(rig_, Purpose::reduce_grads, unit),
                                      .fixed = fixed,
                                      .sums = summed.storage() == whole.storage() ? View() : summed});
  });
}

void Reductions::finish() {
  if (unit_ < 0) return;
  for (Handle& handle : handles_) handle.order();
  catch_up();  // the host is one reduction ahead of streams, no more
  before_ = std::exchange(handles_, {});
  const int unit = std::exchange(unit_, -1);
  if (finished_) finished_(unit);
}

void Reductions::catch_up() {
  for (Handle& handle : before_) handle.wait();
}

// ---- UpdatedParams

void UpdatedParams::gather(int unit) {
  handle_.order();
  before_.wait();
  before_ = std::exchange(handle_, {});
  handle_ = rig_.transport.all_gather({.mine = params_.mine(unit),
                                       .whole = params_.all(unit),
                                       .cuts = cuts_of(rig_, unit),
                                       .label = label_of(rig_, Purpose::gather_params, unit)});
  if (!overlaps(rig_)) finish();
}

}  // namespace zp
