// What one rank sends in one optimizer step, in closed form, and the collectives that it asks for, one by
// one.
#include "harness/theory/traffic.hpp"

#include <algorithm>
#include <utility>

#include "harness/base/check.hpp"
#include "harness/layout/uses.hpp"

namespace zp::theory {
namespace {

enum class Half { reduce_scatter, all_gather };

// Slices that pass to `peer` in one reduce-scatter or one all-gather. Direct: every peer gets its slice of a
// sum, or mine. Halving (and the gather by doubling): the partner at distance h gets h slices, and no one
// else any. Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in
// MPICH, IJHPCA 2005.
// In a ring the successor gets every slice but one.
int64_t slices_to(Algorithm algorithm, int place, int peer, int world) {
  if (algorithm == Algorithm::direct) return 1;
  if (algorithm == Algorithm::ring) return peer == (place + 1) % world ? world - 1 : 0;
  const int distance = place ^ peer;
  return (distance & (distance - 1)) == 0 ? distance : 0;
}

// A range is cut into messages: of a reduce-scatter as long as a receive piece, of a gather short enough that
// a waiting rank sees one after the other arrive.
int64_t messages_of(Half half, Bytes bytes) {
  const Bytes longest = half == Half::reduce_scatter ? kReceivePiece : kLongestMessage;
  return (bytes.n + longest.n - 1) / longest.n;
}

std::vector<Range> ranges_of(const UnitLayout& unit, const Training& training) {
  return bucket_ranges(unit, training.batching.world, size_of(training.recipe.grads),
                       training.schedule.bucket);
}

class Sender {
 public:
  Sender(const Layout& layout, Algorithm algorithm, int rank)
      : layout_(layout), algorithm_(algorithm), place_(layout.places().place_of(rank)) {}

  // `times` collectives of slices of `slice` bytes each, which travel together where several go to one peer.
  void add(Purpose purpose, Half half, Bytes slice, int64_t times) {
    add_runs(purpose, half, slice, times, [](int64_t slices) { return std::pair{int64_t{1}, slices}; });
  }

  // Gradients, bucket by bucket, as `each`. A bucket of several slices lies apart in each, and so travels
  // slice by slice; in an image of its own it lies together.
  void add_buckets(Half half, const Training& training, int64_t times, Type each, bool in_image) {
    for (const int trained : layout_.trained()) {
      const UnitLayout& unit = layout_.unit(trained);
      for (const Range& bucket : ranges_of(unit, training)) {
        const bool together = in_image || bucket.length() == unit.slice;
        add_runs(Purpose::reduce_grads, half, bucket.length() * size_of(each), times,
                 [together](int64_t slices) {
                   return together ? std::pair{int64_t{1}, slices} : std::pair{slices, int64_t{1}};
                 });
      }
    }
  }

  void add_params(const UnitLayout& unit, Type type, int64_t times) {
    add(Purpose::gather_params, Half::all_gather, unit.slice * size_of(type), times);
  }

  SentLines take() { return std::move(lines_); }

 private:
  // `runs_of` says of a number of slices: how many runs of how many slices each.
  template <class RunsOf>
  void add_runs(Purpose purpose, Half half, Bytes slice, int64_t times, const RunsOf& runs_of) {
    if (times == 0 || slice.n == 0) return;
    for (int peer = 0; peer < layout_.world(); ++peer) {
      if (peer == place_) continue;
      const int64_t slices = slices_to(algorithm_, place_, peer, layout_.world());
      if (slices == 0) continue;
      // Slices of a ring travel one by one.
      const auto [runs, together] =
          algorithm_ == Algorithm::ring ? std::pair{slices, int64_t{1}} : runs_of(slices);
      Sent& sent = lines_[purpose][layout_.places().rank_at[static_cast<size_t>(peer)]];
      sent.messages += messages_of(half, slice * together) * runs * times;
      sent.bytes += slice * slices * times;
    }
  }

  const Layout& layout_;
  Algorithm algorithm_;
  int place_;
  SentLines lines_;
};

void check_world(const Layout& layout, const Training& training) {
  require(layout.world() == training.batching.world, "layout and batching are of one world");
  require(training.batching.micro_steps() > 0, "a step has at least one micro-batch a rank");
}

}  // namespace

// Rajbhandari et al., SC 2020, 7: all-reduce 2 passes; stages 1 and 2 a reduce-scatter and an all-gather;
// stage 3 one all-gather more, since parameters are gathered for forward and again for backward.
Passes passes(const Stage& stage, int64_t micro_steps) {
  Passes count;
  count.reduce_scatters = stage.reduction == Reduction::after_accumulation ? 1 : micro_steps;
  count.grad_gathers = stage.all_reduces ? count.reduce_scatters : 0;
  switch (stage.gather) {
    case Gather::never: break;
    case Gather::after_step: count.gathers = 1; break;
    case Gather::every_use: count.gathers = 2 * micro_steps; break;
    case Gather::every_forward: count.gathers = micro_steps; break;
  }
  return count;
}

std::vector<Gathering> gatherings(const Stage& stage, const Layout& layout, const Training& training) {
  std::vector<Gathering> list;
  if (stage.gather != Gather::every_use && stage.gather != Gather::every_forward) return list;
  const int units = layout.unit_count();
  const int first_kept = stage.gather == Gather::every_forward ? 0 : units - std::min(training.keep, units);
  const std::vector<Use> all = uses(layout);
  std::vector<size_t> kept(static_cast<size_t>(units),
                           all.size());  // by unit: its gathering, once it is made
  for (size_t use = 0; use < all.size(); ++use) {
    for (const int unit : read_by(layout, all[use].unit)) {
      size_t& at = kept[static_cast<size_t>(unit)];
      if (unit >= first_kept && at < list.size()) {
        list[at].last_use = use;
        continue;
      }
      at = list.size();
      list.push_back({.unit = unit, .use = use, .last_use = use});
    }
  }
  return list;
}

namespace {

// Gathers of each unit in one step.
std::vector<int64_t> gathers_by_unit(const Stage& stage, const Layout& layout, const Training& training) {
  std::vector<int64_t> times(static_cast<size_t>(layout.unit_count()));
  for (const Gathering& gathering : gatherings(stage, layout, training)) {
    times[static_cast<size_t>(gathering.unit)] += training.batching.micro_steps();
  }
  if (stage.gather == Gather::after_step) {
    for (const int unit : layout.trained()) times[static_cast<size_t>(unit)] = 1;
  }
  return times;
}

}  // namespace

bool converts_in_reduction(const Stage& stage, const Training& training) {
  const bool summed_before = stage.grads == Held::whole && training.batching.micro_steps() > 1;
  return training.fixed_point() && !summed_before;
}

SentLines sent_per_step(const Stage& stage, const Layout& layout, const Training& training,
                        Algorithm algorithm, int rank) {
  check_world(layout, training);
  if (algorithm == Algorithm::native) return {};
  const int64_t micro_steps = training.batching.micro_steps();
  const Passes count = passes(stage, micro_steps);
  const Recipe& recipe = training.recipe;
  Sender sender(layout, algorithm, rank);
  const std::vector<int64_t> gathers = gathers_by_unit(stage, layout, training);
  for (const UnitLayout& unit : layout.units()) {
    sender.add_params(unit, recipe.params, gathers[static_cast<size_t>(unit.index)]);
  }
  sender.add_buckets(Half::reduce_scatter, training, count.reduce_scatters, training.wire_type(),
                     converts_in_reduction(stage, training));
  sender.add_buckets(Half::all_gather, training, count.grad_gathers, recipe.grads, false);
  sender.add(Purpose::loss, Half::all_gather, Elements{micro_steps} * size_of(Type::f32), 1);
  sender.add(Purpose::grad_norm, Half::all_gather, kNormLimbs * size_of(Type::i64), 1);
  return sender.take();
}

AskedLines asked_per_step(const Stage& stage, const Layout& layout, const Training& training) {
  check_world(layout, training);
  const int64_t micro_steps = training.batching.micro_steps();
  const Passes count = passes(stage, micro_steps);
  const Recipe& recipe = training.recipe;
  AskedLines lines;
  const std::vector<int64_t> gathers = gathers_by_unit(stage, layout, training);
  for (const UnitLayout& unit : layout.units()) {
    const int64_t times = gathers[static_cast<size_t>(unit.index)];
    if (times == 0) continue;
    Asked& asked = lines[Purpose::gather_params][Operation::all_gather];
    asked.calls += times;
    asked.whole += unit.padded * size_of(recipe.params) * times;
  }
  const Operation reduction = stage.all_reduces ? Operation::all_reduce : Operation::reduce_scatter;
  // Buckets: more calls, the same bytes in all.
  Asked& reductions = lines[Purpose::reduce_grads][reduction];
  for (const int trained : layout.trained()) {
    const UnitLayout& unit = layout.unit(trained);
    reductions.whole += unit.padded * size_of(training.wire_type()) * count.reduce_scatters;
    reductions.calls += std::ssize(ranges_of(unit, training)) * count.reduce_scatters;
  }
  const int64_t world = layout.world();
  lines[Purpose::loss][Operation::all_gather] = {1, Elements{micro_steps} * size_of(Type::f32) * world};
  lines[Purpose::grad_norm][Operation::all_gather] = {1, kNormLimbs * size_of(Type::i64) * world};
  return lines;
}

Bytes total(const SentLines& lines) {
  Bytes sum;
  for (const auto& [purpose, peers] : lines) {
    for (const auto& [peer, sent] : peers) sum += sent.bytes;
  }
  return sum;
}

// Slices of a pass that one rank sends to other nodes.
namespace {

// The next place is always on another node.
int64_t crossing_slices(Algorithm algorithm, int64_t nodes, int64_t ranks_per_node) {
  if (algorithm == Algorithm::ring) return nodes > 1 ? nodes * ranks_per_node - 1 : 0;
  return algorithm == Algorithm::halving ? nodes - 1 : (nodes - 1) * ranks_per_node;
}

}  // namespace

Bytes crossing_per_step(const Stage& stage, const Layout& layout, const Training& training,
                        Algorithm algorithm) {
  const Places& places = layout.places();
  require(places.ranks_per_node() > 0, "nodes hold equally many ranks");
  if (layout.world() == 1) return {};
  // Every collective sends (N-1) slices a rank and pass, to whomever.
  const int64_t slices = layout.world() - 1;
  const Bytes sent = total(sent_per_step(stage, layout, training, algorithm, 0));
  return Bytes{sent.n / slices} * crossing_slices(algorithm, places.nodes(), places.ranks_per_node());
}

namespace {

// Collectives of one micro-step in the order of its uses. Gathers run ahead of the use that needs them by
// `prefetch` uses, within the micro-step.
class MicroStep {
 public:
  MicroStep(const Stage& stage, const Layout& layout, const Training& training, std::vector<Collective>& list)
      : stage_(stage),
        layout_(layout),
        training_(training),
        uses_(uses(layout)),
        gatherings_(gatherings(stage, layout, training)),
        list_(list) {}

  void append(bool reduces) {
    for (size_t use = 0; use < uses_.size(); ++use) {
      const size_t ahead = use + static_cast<size_t>(training_.schedule.prefetch);
      for (; gathered_ < gatherings_.size() && gatherings_[gathered_].use <= ahead; ++gathered_) {
        const UnitLayout& unit = layout_.unit(gatherings_[gathered_].unit);
        list_.push_back({Operation::all_gather, Purpose::gather_params, training_.recipe.params, unit.padded,
                         unit.index});
      }
      const UnitLayout& unit = layout_.unit(uses_[use].unit);
      if (uses_[use].pass == Pass::backward && reduces && !unit.frozen) reduce(unit);
    }
  }

 private:
  void reduce(const UnitLayout& unit) {
    const Operation reduction = stage_.all_reduces ? Operation::all_reduce : Operation::reduce_scatter;
    for (const Range& bucket : ranges_of(unit, training_)) {
      list_.push_back({reduction, Purpose::reduce_grads, training_.wire_type(),
                       bucket.length() * layout_.world(), unit.index});
    }
  }

  const Stage& stage_;
  const Layout& layout_;
  const Training& training_;
  std::vector<Use> uses_;
  std::vector<Gathering> gatherings_;
  std::vector<Collective>& list_;
  size_t gathered_ = 0;
};

}  // namespace

std::vector<Collective> collectives_of_step(const Stage& stage, const Layout& layout,
                                            const Training& training) {
  check_world(layout, training);
  const int micro_steps = training.batching.micro_steps();
  std::vector<Collective> list;
  for (int micro_step = 0; micro_step < micro_steps; ++micro_step) {
    const bool reduces = stage.reduction == Reduction::every_micro_step || micro_step + 1 == micro_steps;
    MicroStep(stage, layout, training, list).append(reduces);
  }
  const int64_t world = layout.world();
  list.push_back({Operation::all_gather, Purpose::loss, Type::f32, Elements{micro_steps} * world, -1});
  list.push_back({Operation::all_gather, Purpose::grad_norm, Type::i64, kNormLimbs * world, -1});
  if (stage.gather == Gather::after_step) {
    for (const int unit : layout.trained()) {
      list.push_back({Operation::all_gather, Purpose::gather_params, training.recipe.params,
                      layout.unit(unit).padded, unit});
    }
  }
  return list;
}

}  // namespace zp::theory
