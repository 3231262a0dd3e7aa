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

// Of the units that are trained.
Elements trained_extent(const Layout& layout, Held held) {
  Elements sum;
  for (const int unit : layout.trained())
    sum += held == Held::whole ? layout.unit(unit).padded : layout.unit(unit).slice;
  return sum;
}

// Buffers of the sum over A micro-steps: the fold's sums that wait, and one unit's newest term (design 3.4).
// In fixed point one sum serves, to which whole gradients are added from where the model writes them.
Bytes fold_bytes(const Stage& stage, const Layout& layout, const Training& training) {
  const int micro_steps = training.batching.micro_steps();
  if (micro_steps < 2) return {0};
  const Bytes each = size_of(training.wire_type());
  Elements largest;
  for (const int trained : layout.trained()) {
    const UnitLayout& unit = layout.unit(trained);
    largest = std::max(largest, stage.grads == Held::whole ? unit.padded : unit.slice);
  }
  if (training.fixed_point()) {
    return trained_extent(layout, stage.grads) * each +
           (stage.grads == Held::slice ? largest : Elements{}) * each;
  }
  return trained_extent(layout, stage.grads) * each * extra_buffers(training.batching) + largest * each;
}

// Fixed-point image of the largest reduction, where gradients are not summed in it before they cross ranks.
Bytes image_bytes(const Stage& stage, const Layout& layout, const Training& training) {
  if (!converts_in_reduction(stage, training)) return {0};
  Elements largest;
  for (const int trained : layout.trained()) {
    for (const Range& bucket : bucket_ranges(layout.unit(trained), layout.world(),
                                             size_of(training.recipe.grads), training.schedule.bucket)) {
      largest = std::max(largest, bucket.length());
    }
  }
  return largest * layout.world() * size_of(Type::i64);
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
  const Bytes optimizer = size_of(Type::f32) * optimizer_words(recipe, training.optimizer);
  HeldLines lines = constant;
  set(lines, Category::params, extent(layout, stage.params) * size_of(recipe.params));
  set(lines, Category::grads, trained_extent(layout, stage.grads) * size_of(recipe.grads));
  set(lines, Category::optimizer, trained_extent(layout, stage.optimizer) * optimizer);
  set(lines, Category::fold, fold_bytes(stage, layout, training));
  set(lines, Category::transport,
      kReceivePiece * kReceivePieces * active_peers(algorithm, layout.world()) +
          image_bytes(stage, layout, training));
  set(lines, Category::scalars, scalar_bytes(layout, training));
  return lines;
}

// A buffer that a micro-step acquires: held from before use `from` to after use `to`; number_of_uses where it
// outlives the last one.
struct Passing {
  Category category = Category::gathered;
  Bytes bytes;
  size_t from = 0, to = 0;
};

// Gathers run ahead by as many uses as the schedule says.
void add_gathered(std::vector<Passing>& list, const Stage& stage, const Layout& layout,
                  const Training& training) {
  const auto ahead = static_cast<size_t>(training.schedule.prefetch);
  for (const Gathering& gathering : gatherings(stage, layout, training)) {
    list.push_back({.category = Category::gathered,
                    .bytes = layout.unit(gathering.unit).padded * size_of(training.recipe.params),
                    .from = gathering.use - std::min(gathering.use, ahead),
                    .to = gathering.last_use});
  }
}

// The first backward use that writes the gradient of `unit`: that of the unit that borrows it, or its own.
size_t first_writer(const Layout& layout, const std::vector<Use>& list, int unit) {
  for (size_t use = 0; use < list.size(); ++use) {
    if (list[use].pass == Pass::forward) continue;
    const std::vector<int> read = read_by(layout, list[use].unit);
    if (std::ranges::find(read, unit) != read.end()) return use;
  }
  require(false, "a trained unit has a backward");
  return 0;
}

// Whole local gradients: until their reduction, which with overlap ends when the next unit's is to begin, or
// with the step. Where gradients are held whole, only the scratch of a borrowed unit passes;
// fixed point needs none.
void add_gradients(std::vector<Passing>& list, const Stage& stage, const Layout& layout,
                   const Training& training) {
  const std::vector<Use> all = uses(layout);
  const Bytes each = size_of(training.recipe.grads);
  const bool runs_on = training.schedule.overlap == Overlap::on;
  size_t next = all.size();  // backward of the unit that is reduced next
  for (size_t use = all.size(); use-- > 0 && all[use].pass == Pass::backward;) {
    const UnitLayout& unit = layout.unit(all[use].unit);
    if (unit.frozen) continue;
    const size_t from = first_writer(layout, all, unit.index);
    if (stage.grads == Held::slice) {
      list.push_back({Category::bucket, unit.padded * each, from, runs_on ? next : use});
    } else if (from < use && training.batching.micro_steps() > 1 && !training.fixed_point()) {
      list.push_back({Category::fold, unit.padded * each, from, use});
    }
    next = use;
  }
}

std::vector<Passing> passing(const Stage& stage, const Layout& layout, const Training& training) {
  std::vector<Passing> list;
  add_gathered(list, stage, layout, training);
  add_gradients(list, stage, layout, training);
  return list;
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
  Moments moments;
  moments.standing = standing(stage, layout, training, algorithm, constant);
  const std::vector<Use> list = uses(layout);
  const std::vector<Passing> buffers = passing(stage, layout, training);
  moments.units = static_cast<size_t>(layout.unit_count());
  for (size_t use = 0; use < list.size(); ++use) {
    HeldLines during = moments.standing;
    HeldLines after = moments.standing;
    for (const Passing& buffer : buffers) {
      if (buffer.from > use || buffer.to < use) continue;
      during[buffer.category] += buffer.bytes;
      if (buffer.to > use) after[buffer.category] += buffer.bytes;
    }
    moments.during.push_back(std::move(during));
    moments.after.push_back(std::move(after));
  }
  return moments;
}

}  // namespace

int active_peers(Algorithm algorithm, int world) {
  if (algorithm == Algorithm::native) return 0;
  return algorithm == Algorithm::direct ? world - 1 : std::min(1, world - 1);
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
  std::map<Category, Acquired> lines;
  for (const Passing& buffer : passing(stage, layout, training)) {
    Acquired& line = lines[buffer.category];
    line.calls += training.batching.micro_steps();
    line.bytes += buffer.bytes * training.batching.micro_steps();
  }
  return lines;
}

std::optional<Bytes> pinned_for_messages(Route route, int world) {
  if (route == Route::staged && world > 1) return std::nullopt;
  return Bytes{};
}

}  // namespace zp::theory
