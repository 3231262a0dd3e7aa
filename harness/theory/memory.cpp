// What one rank holds, by category and point, and the predicted peaks.
#include "harness/theory/memory.hpp"

#include <algorithm>

#include "harness/base/check.hpp"
#include "harness/layout/uses.hpp"
#include "harness/theory/traffic.hpp"

namespace zp::theory {
namespace {

Elements extent(const Layout& layout, Held held) {
  return held == Held::whole ? layout.padded() : layout.slices();
}

// Buffers of the fold over A micro-steps: the sums that wait, and one unit's newest term (design 3.4).
Bytes fold_bytes(const Stage& stage, const Layout& layout, const Training& training) {
  const int micro_steps = training.batching.micro_steps();
  if (micro_steps < 2) return {0};
  const Bytes each = size_of(training.recipe.grads);
  Elements largest;
  for (const UnitLayout& unit : layout.units()) {
    largest = std::max(largest, stage.grads == Held::whole ? unit.padded : unit.slice);
  }
  return extent(layout, stage.grads) * each * extra_fold_buffers(micro_steps) + largest * each;
}

// Losses and norms of all ranks, gathered in place.
Bytes scalar_bytes(const Layout& layout, const Training& training) {
  const Bytes losses = Elements{training.batching.micro_steps()} * size_of(Type::f32);
  return (kNormLimbs * size_of(Type::i64) + losses) * layout.world();
}

void set(HeldLines& lines, Category category, Bytes bytes) {
  if (bytes.n > 0) {
    lines[category] = bytes;
  } else {
    lines.erase(category);
  }
}

// Held from before the first step to the end.
HeldLines standing(const Stage& stage, const Layout& layout, const Training& training, Algorithm algorithm,
                   const HeldLines& constant) {
  const Recipe& recipe = training.recipe;
  const Bytes optimizer = size_of(Type::f32) * recipe.optimizer_words;
  HeldLines lines = constant;
  set(lines, Category::params, extent(layout, stage.params) * size_of(recipe.params));
  set(lines, Category::grads, extent(layout, stage.grads) * size_of(recipe.grads));
  set(lines, Category::optimizer, extent(layout, stage.optimizer) * optimizer);
  set(lines, Category::fold, fold_bytes(stage, layout, training));
  set(lines, Category::transport, kReceivePiece * kReceivePieces * active_peers(algorithm, layout.world()));
  set(lines, Category::scalars, scalar_bytes(layout, training));
  return lines;
}

// Whole parameters that are gathered during uses `from` to before `to` of a micro-step. zero3 holds the units
// of these uses; zero3-keep holds in forward all units so far, and in backward those whose own backward is
// still to come.
Elements gathered_at(const Stage& stage, const Layout& layout, size_t from, size_t to) {
  const std::vector<Use> list = uses(layout);
  Elements held;
  if (stage.gather == Gather::every_use) {
    for (size_t use = from; use < std::min(to, list.size()); ++use)
      held += layout.unit(list[use].unit).padded;
  }
  if (stage.gather == Gather::every_forward) {
    const auto units = static_cast<size_t>(layout.unit_count());
    const size_t kept = from < units ? std::min(to, units) : 2 * units - from;
    for (size_t unit = 0; unit < kept; ++unit) held += layout.unit(static_cast<int>(unit)).padded;
  }
  return held;
}

// Whole local gradients while backward use number `use` of a micro-step runs: its own unit's, and with
// overlap the one whose reduction runs beside it.
Elements local_gradients_at(const Layout& layout, const Schedule& schedule, size_t use) {
  const std::vector<Use> list = uses(layout);
  Elements held = layout.unit(list[use].unit).padded;
  const bool before_is_backward = list[use - 1].pass == Pass::backward;
  if (schedule.overlap == Overlap::on && before_is_backward) held += layout.unit(list[use - 1].unit).padded;
  return held;
}

// The moments at which a step holds most: once a hook has acquired what its unit needs.
struct Moments {
  HeldLines standing, after_forward;
  std::vector<HeldLines> forward, backward;  // in order of use
};

Moments moments_of(const Stage& stage, const Layout& layout, const Training& training, Algorithm algorithm,
                   const HeldLines& constant) {
  require(layout.world() == training.batching.world, "layout and batching are of one world");
  const Recipe& recipe = training.recipe;
  Moments moments;
  moments.standing = standing(stage, layout, training, algorithm, constant);
  const std::vector<Use> list = uses(layout);
  const Schedule& schedule = training.schedule;
  const auto ahead = static_cast<size_t>(schedule.prefetch);
  for (size_t use = 0; use < list.size(); ++use) {
    HeldLines moment = moments.standing;
    set(moment, Category::gathered,
        gathered_at(stage, layout, use, use + 1 + ahead) * size_of(recipe.params));
    const bool backward = list[use].pass == Pass::backward;
    if (backward && stage.grads == Held::slice) {
      set(moment, Category::bucket, local_gradients_at(layout, schedule, use) * size_of(recipe.grads));
    }
    (backward ? moments.backward : moments.forward).push_back(std::move(moment));
  }
  // The last unit's forward is over, and nothing of backward has begun but gathers that ran ahead.
  const size_t units = list.size() / 2;
  moments.after_forward = moments.standing;
  set(moments.after_forward, Category::gathered,
      gathered_at(stage, layout, units, units + ahead) * size_of(recipe.params));
  return moments;
}

}  // namespace

int active_peers(Algorithm algorithm, int world) {
  return algorithm == Algorithm::halving ? std::min(1, world - 1) : world - 1;
}

Bytes total(const HeldLines& lines) {
  Bytes sum;
  for (const auto& [category, bytes] : lines) sum += bytes;
  return sum;
}

HeldPoints held_per_step(const Stage& stage, const Layout& layout, const Training& training,
                         Algorithm algorithm, const HeldLines& constant) {
  const Moments moments = moments_of(stage, layout, training, algorithm, constant);
  // Of moments with equal totals the first is the peak.
  const auto raise = [](HeldLines& peak, const HeldLines& moment) {
    if (total(moment) > total(peak)) peak = moment;
  };
  HeldPoints points;
  points[Point::after_init] = moments.standing;
  points[Point::after_reduction] = moments.standing;
  points[Point::after_step] = moments.standing;
  points[Point::after_forward] = moments.after_forward;
  HeldLines& backward = points[Point::backward_peak] = moments.after_forward;
  for (const HeldLines& moment : moments.backward) raise(backward, moment);
  HeldLines& step = points[Point::step_peak] = moments.standing;
  for (const HeldLines& moment : moments.forward) raise(step, moment);
  for (const HeldLines& moment : moments.backward) raise(step, moment);
  return points;
}

HeldLines largest_by_category(const Stage& stage, const Layout& layout, const Training& training,
                              Algorithm algorithm, const HeldLines& constant) {
  const Moments moments = moments_of(stage, layout, training, algorithm, constant);
  HeldLines largest = moments.standing;
  for (const auto* pass : {&moments.forward, &moments.backward}) {
    for (const HeldLines& moment : *pass) {
      for (const auto& [category, bytes] : moment) largest[category] = std::max(largest[category], bytes);
    }
  }
  return largest;
}

}  // namespace zp::theory
