// What one rank sends in one optimizer step, in closed form, and the collectives that it asks for, one by
// one.
#include "harness/theory/traffic.hpp"

#include "harness/base/check.hpp"
#include "harness/layout/uses.hpp"

namespace zp::theory {
namespace {

enum class Half { reduce_scatter, all_gather };

// Slices that pass to `peer` in one reduce-scatter or one all-gather. Direct: every peer gets its slice of a
// sum, or mine. Halving (and the gather by doubling): the partner at distance h gets h slices, and no one
// else any. Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in
// MPICH, IJHPCA 2005.
int64_t slices_to(Algorithm algorithm, int place, int peer) {
  if (algorithm == Algorithm::direct) return 1;
  const int distance = place ^ peer;
  return (distance & (distance - 1)) == 0 ? distance : 0;
}

// A range is cut into messages: of a reduce-scatter as long as a receive piece, of a gather much longer ones,
// since they arrive where they stay.
int64_t messages_of(Half half, Bytes bytes) {
  const Bytes longest = half == Half::reduce_scatter ? kReceivePiece : kLongestMessage;
  return (bytes.n + longest.n - 1) / longest.n;
}

class Sender {
 public:
  Sender(const Layout& layout, Algorithm algorithm, int rank)
      : layout_(layout), algorithm_(algorithm), place_(layout.places().place_of(rank)) {}

  // `times` collectives of slices of `slice` bytes each.
  void add(Purpose purpose, Half half, Bytes slice, int64_t times) {
    if (times == 0 || slice.n == 0) return;
    for (int peer = 0; peer < layout_.world(); ++peer) {
      if (peer == place_) continue;
      const Bytes bytes = slice * slices_to(algorithm_, place_, peer);
      if (bytes.n == 0) continue;
      Sent& sent = lines_[purpose][layout_.places().rank_at[static_cast<size_t>(peer)]];
      sent.messages += messages_of(half, bytes) * times;
      sent.bytes += bytes * times;
    }
  }

  // The same for every unit of the model.
  void add_units(Purpose purpose, Half half, Type type, int64_t times) {
    for (const UnitLayout& unit : layout_.units()) add(purpose, half, unit.slice * size_of(type), times);
  }

  SentLines take() { return std::move(lines_); }

 private:
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

SentLines sent_per_step(const Stage& stage, const Layout& layout, const Training& training,
                        Algorithm algorithm, int rank) {
  check_world(layout, training);
  const int64_t micro_steps = training.batching.micro_steps();
  const Passes count = passes(stage, micro_steps);
  const Recipe& recipe = training.recipe;
  Sender sender(layout, algorithm, rank);
  sender.add_units(Purpose::gather_params, Half::all_gather, recipe.params, count.gathers);
  sender.add_units(Purpose::reduce_grads, Half::reduce_scatter, recipe.grads, count.reduce_scatters);
  sender.add_units(Purpose::reduce_grads, Half::all_gather, recipe.grads, count.grad_gathers);
  sender.add(Purpose::loss, Half::all_gather, Elements{micro_steps} * size_of(Type::f32), 1);
  sender.add(Purpose::grad_norm, Half::all_gather, kNormLimbs * size_of(Type::i64), 1);
  return sender.take();
}

AskedLines asked_per_step(const Stage& stage, const Layout& layout, const Training& training) {
  check_world(layout, training);
  const int64_t micro_steps = training.batching.micro_steps();
  const Passes count = passes(stage, micro_steps);
  const Recipe& recipe = training.recipe;
  const auto of_units = [&](Type type, int64_t times) {
    return Asked{.calls = layout.unit_count() * times, .whole = layout.padded() * size_of(type) * times};
  };
  AskedLines lines;
  if (count.gathers > 0) {
    lines[Purpose::gather_params][Operation::all_gather] = of_units(recipe.params, count.gathers);
  }
  const Operation reduction = stage.all_reduces ? Operation::all_reduce : Operation::reduce_scatter;
  lines[Purpose::reduce_grads][reduction] = of_units(recipe.grads, count.reduce_scatters);
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

std::vector<Collective> collectives_of_step(const Stage& stage, const Layout& layout,
                                            const Training& training) {
  check_world(layout, training);
  const int micro_steps = training.batching.micro_steps();
  const Recipe& recipe = training.recipe;
  std::vector<Collective> list;
  const auto of_unit = [&](Operation operation, Purpose purpose, Type type, int unit) {
    list.push_back({operation, purpose, type, layout.unit(unit).padded, unit});
  };
  const Operation reduction = stage.all_reduces ? Operation::all_reduce : Operation::reduce_scatter;
  for (int micro_step = 0; micro_step < micro_steps; ++micro_step) {
    const bool reduces = stage.reduction == Reduction::every_micro_step || micro_step + 1 == micro_steps;
    for (const Use& use : uses(layout)) {
      const bool forward = use.pass == Pass::forward;
      if (stage.gather == Gather::every_use || (stage.gather == Gather::every_forward && forward)) {
        of_unit(Operation::all_gather, Purpose::gather_params, recipe.params, use.unit);
      }
      if (!forward && reduces) of_unit(reduction, Purpose::reduce_grads, recipe.grads, use.unit);
    }
  }
  const int64_t world = layout.world();
  list.push_back({Operation::all_gather, Purpose::loss, Type::f32, Elements{micro_steps} * world, -1});
  list.push_back({Operation::all_gather, Purpose::grad_norm, Type::i64, kNormLimbs * world, -1});
  if (stage.gather == Gather::after_step) {
    for (const UnitLayout& unit : layout.units()) {
      of_unit(Operation::all_gather, Purpose::gather_params, recipe.params, unit.index);
    }
  }
  return list;
}

}  // namespace zp::theory
