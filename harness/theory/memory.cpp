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
  const Bytes optimizer = size_of(Type::f32) * optimizer_words(recipe);
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

// The moments of a micro-step, in order of use: once the hook before it has acquired what its unit needs, and
// once the hook after it has dropped what no later use needs.
struct Moments {
  HeldLines standing;
  std::vector<HeldLines> during, after;
  size_t units = 0;  // so many uses are forward

  // The last unit's forward is over, and nothing of backward has begun but gathers that ran ahead.
  const HeldLines& after_forward() const { return after[units - 1]; }
};

void raise_each(HeldLines& most, const HeldLines& moment) {
  for (const auto& [category, bytes] : moment) most[category] = std::max(most[category], bytes);
}

Moments moments_of(const Stage& stage, const Layout& layout, const Training& training, Algorithm algorithm,
                   const HeldLines& constant) {
  require(layout.world() == training.batching.world, "layout and batching are of one world");
  const Recipe& recipe = training.recipe;
  Moments moments;
  moments.standing = standing(stage, layout, training, algorithm, constant);
  const std::vector<Use> list = uses(layout);
  const Schedule& schedule = training.schedule;
  const auto ahead = static_cast<size_t>(schedule.prefetch);
  moments.units = list.size() / 2;
  for (size_t use = 0; use < list.size(); ++use) {
    HeldLines during = moments.standing;
    HeldLines after = moments.standing;
    set(during, Category::gathered,
        gathered_at(stage, layout, use, use + 1 + ahead) * size_of(recipe.params));
    set(after, Category::gathered,
        gathered_at(stage, layout, use + 1, use + 1 + ahead) * size_of(recipe.params));
    if (list[use].pass == Pass::backward && stage.grads == Held::slice) {
      set(during, Category::bucket, local_gradients_at(layout, schedule, use) * size_of(recipe.grads));
      // With overlap the unit's own reduction runs on.
      const bool runs_on = schedule.overlap == Overlap::on;
      const Elements left = runs_on ? layout.unit(list[use].unit).padded : Elements{};
      set(after, Category::bucket, left * size_of(recipe.grads));
    }
    moments.during.push_back(std::move(during));
    moments.after.push_back(std::move(after));
  }
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
  points[Point::after_forward] = moments.after_forward();
  HeldLines& backward_peak = points[Point::backward_peak] = moments.after_forward();
  HeldLines& step_peak = points[Point::step_peak] = moments.standing;
  points[Point::forward_most] = moments.standing;
  points[Point::backward_most] = moments.after_forward();
  for (size_t use = 0; use < moments.during.size(); ++use) {
    const bool forward = use < moments.units;
    raise(step_peak, moments.during[use]);
    if (!forward) raise(backward_peak, moments.during[use]);
    raise_each(points[forward ? Point::forward_most : Point::backward_most], moments.during[use]);
  }
  // A reduction that runs beside what follows ends in the rest of the step, and so does what it holds.
  points[Point::rest_most] = moments.after.back();
  return points;
}

HeldLines largest_by_category(const Stage& stage, const Layout& layout, const Training& training,
                              Algorithm algorithm, const HeldLines& constant) {
  const Moments moments = moments_of(stage, layout, training, algorithm, constant);
  HeldLines largest = moments.standing;
  for (const HeldLines& moment : moments.during) raise_each(largest, moment);
  return largest;
}

std::vector<HeldInUse> held_in_uses(const Stage& stage, const Layout& layout, const Training& training,
                                    Algorithm algorithm, const HeldLines& constant) {
  const Moments moments = moments_of(stage, layout, training, algorithm, constant);
  std::vector<HeldInUse> list;
  for (size_t use = 0; use < moments.during.size(); ++use) {
    list.push_back({.most = moments.during[use], .after = moments.after[use]});
  }
  return list;
}

std::map<Category, Acquired> acquired_per_step(const Stage& stage, const Layout& layout,
                                               const Training& training) {
  const int64_t micro_steps = training.batching.micro_steps();
  std::map<Category, Acquired> lines;
  const auto add = [&](Category category, int64_t times, Type type) {
    lines[category] = {.calls = times * layout.unit_count(),
                       .bytes = layout.padded() * size_of(type) * times};
  };
  if (stage.gather == Gather::every_use) add(Category::gathered, 2 * micro_steps, training.recipe.params);
  if (stage.gather == Gather::every_forward) add(Category::gathered, micro_steps, training.recipe.params);
  if (stage.grads == Held::slice) add(Category::bucket, micro_steps, training.recipe.grads);
  return lines;
}

}  // namespace zp::theory
