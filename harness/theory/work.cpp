// What one rank computes in one optimizer step.
#include "harness/theory/work.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "harness/base/check.hpp"
#include "harness/theory/traffic.hpp"

namespace zp::theory {
namespace {

class Counter {
 public:
  // `times` calls of `each` elements.
  void add(std::string_view kernel, int64_t times, Elements each) { add_total(kernel, times, each * times); }
  // `calls` that handle `elements` together. A kernel is not called for nothing.
  void add_total(std::string_view kernel, int64_t calls, Elements elements) {
    if (calls == 0 || elements.n == 0) return;
    Work& work = lines_[std::string(kernel)];
    work.calls += calls;
    work.elements += elements;
  }
  WorkLines take() { return std::move(lines_); }

 private:
  WorkLines lines_;
};

std::string_view fold_of(Type wire) { return wire == Type::i64 ? "integer fold" : "fold"; }

// Slices of a bucket lie apart, and are added one by one.
enum class Slices { together, apart };

// Additions of one reduce-scatter of slices of `slice` elements: (N-1)·L whatever the algorithm. Halving adds
// what each of its log2 N partners sends, N/2 … 1 slices, piece by piece; direct folds all N contributions of
// a piece at once; a ring adds the own term to each of N-1 slices. Alone there is nothing to add: one
// division, or a move where the result lies elsewhere.
void add_reduction(Counter& count, Algorithm algorithm, int64_t world, Elements slice, Type wire,
                   Slices lie) {
  const auto pieces = [&](int64_t slices) {
    const int64_t runs = lie == Slices::together ? 1 : slices;
    const Bytes bytes = slice * size_of(wire) * (slices / runs);
    return (bytes.n + kReceivePiece.n - 1) / kReceivePiece.n * runs;
  };
  int64_t calls = algorithm == Algorithm::direct ? pieces(1) : 0;
  if (algorithm == Algorithm::halving) {
    for (int64_t slices = world / 2; slices > 0; slices /= 2) calls += pieces(slices);
  }
  if (algorithm == Algorithm::ring) calls = (world - 1) * pieces(1);
  count.add_total(fold_of(wire), calls, slice * (world - 1));
}

// Fixed point by the stage's way: with an image, the whole or every slice's bucket becomes it.
void add_conversions(Counter& count, const UnitLayout& unit, const Range& bucket, int64_t world) {
  if (bucket.length() == unit.slice) {
    count.add("to fixed", 1, unit.padded);
  } else {
    count.add("to fixed", world, bucket.length());
  }
}

// A library adds by itself. What is left is to convert and to divide its sums: of the own slice, or of the
// whole after an all-reduce.
void add_native_reductions(Counter& count, const Stage& stage, const UnitLayout& unit,
                           const Training& training) {
  const Batching& batching = training.batching;
  const int64_t times = passes(stage, batching.micro_steps()).reduce_scatters;
  const Elements summed = stage.all_reduces ? unit.padded : unit.slice;
  if (converts_in_reduction(stage, training)) count.add("to fixed", times, unit.padded);
  // Sums that other micro-steps are added to stay what they are.
  if (stage.grads == Held::slice && batching.micro_steps() > 1) return;
  if (training.fixed_point()) {
    count.add("from fixed", times, summed);
  } else if (batching.micro_batches > 1) {
    count.add("divide", times, summed);
  }
}

// Sums over places of one unit's gradients.
void add_reductions(Counter& count, const Stage& stage, const UnitLayout& unit, const Training& training,
                    Algorithm algorithm) {
  const int64_t times = passes(stage, training.batching.micro_steps()).reduce_scatters;
  if (algorithm == Algorithm::native) return add_native_reductions(count, stage, unit, training);
  const Type wire = training.wire_type();
  const int64_t world = training.batching.world;
  const bool converts = converts_in_reduction(stage, training);
  const std::vector<Range> buckets =
      bucket_ranges(unit, training.batching.world, size_of(training.recipe.grads), training.schedule.bucket);
  for (int64_t i = 0; i < times; ++i) {
    for (const Range& bucket : buckets) {
      const bool together = converts || bucket.length() == unit.slice;
      if (converts) add_conversions(count, unit, bucket, world);
      if (world > 1) {
        add_reduction(count, algorithm, world, bucket.length(), wire,
                      together ? Slices::together : Slices::apart);
      }
    }
  }
  if (world > 1) return;
  if (training.fixed_point()) {
    // Sums that other micro-steps are added to stay what they are.
    const bool stays = stage.grads == Held::slice && training.batching.micro_steps() > 1;
    for (const Range& bucket : buckets) {
      if (!stays) count.add("from fixed", times, bucket.length());
    }
    return;
  }
  const bool in_place = stage.grads == Held::whole;
  if (in_place && training.batching.micro_batches == 1) return;
  for (const Range& bucket : buckets) count.add("divide", times, bucket.length());
}

// Sums over micro-steps in fixed point: every micro-step's gradient is converted with its padding cleared,
// where it is added to a whole sum or on its way to its owner; slices are then added up.
void add_fixed_sums(Counter& count, const Stage& stage, const UnitLayout& unit, int64_t micro_steps) {
  count.add("initialize", micro_steps, unit.padded - unit.length);
  if (micro_steps == 1) return;
  if (stage.grads == Held::whole) {
    count.add("to fixed", micro_steps, unit.padded);
  } else {
    count.add("integer fold", micro_steps - 1, unit.slice);
  }
}

// Norm, optimizer and cast handle logical elements only. The optimizer is called tensor by tensor, since
// decay depends on the tensor. Only masters are cast: fp32 parameters have none.
void add_update(Counter& count, const Stage& stage, const UnitLayout& unit, const Training& training,
                int place) {
  const Range mine = unit.owned_by(place);
  const Range updated = stage.optimizer == Held::whole ? Range{{0}, unit.length} : mine;
  count.add("square sum", 1, mine.length());
  for (const TensorRun& run : runs(unit, updated)) {
    count.add(name_of(training.optimizer), 1, run.in_unit.length());
  }
  if (has_master(training.recipe)) count.add("cast", 1, updated.length());
}

}  // namespace

WorkLines synthetic_work(const Layout& layout) {
  Counter count;
  for (const int unit : layout.trained()) count.add("synthetic gradient", 1, layout.unit(unit).length);
  return count.take();
}

WorkLines work_per_step(const Stage& stage, const Layout& layout, const Training& training,
                        Algorithm algorithm, int rank, const WorkLines& micro_batch) {
  require(layout.world() == training.batching.world, "layout and batching are of one world");
  const int64_t micro_steps = training.batching.micro_steps();
  const int place = layout.places().place_of(rank);
  Counter count;
  for (const auto& [kernel, work] : micro_batch) {
    count.add_total(kernel, work.calls * micro_steps, work.elements * micro_steps);
  }
  // Terms that open a sum are written where they stay; only the others pass through the scratch.
  const std::vector<Visit> visited = visits(training.batching);
  const int64_t through_scratch = std::ranges::count(visited, false, &Visit::first);
  for (const int trained : layout.trained()) {
    const UnitLayout& unit = layout.unit(trained);
    if (training.fixed_point()) {
      add_fixed_sums(count, stage, unit, micro_steps);
    } else {
      // Whole units pass through one scratch, whose padding is cleared before it is added.
      if (stage.grads == Held::whole) count.add("initialize", through_scratch, unit.padded - unit.length);
      // A fold of A terms makes A-1 additions, over whole buffers or slices, padding included.
      count.add("fold", micro_steps - 1, stage.grads == Held::whole ? unit.padded : unit.slice);
    }
    add_reductions(count, stage, unit, training, algorithm);
    add_update(count, stage, unit, training, place);
  }
  return count.take();
}

namespace {

// A linear in → out over R rows: one product forward; backward one for the input and, where it is trained,
// one for the weights.
void add_linear(Counter& count, const GptShape& s, int64_t in, int64_t out, int64_t forward, int64_t backward,
                int64_t trained) {
  count.add("gemm", forward + backward + trained, {s.rows() * in * out});
}

void add_blocks(Counter& count, const GptShape& s, int64_t backward, int64_t trained) {
  const int64_t w = s.width;
  for (const auto& [in, out] : {std::pair{w, 3 * w}, {w, w}, {w, 4 * w}, {4 * w, w}}) {
    add_linear(count, s, in, out, s.layers, backward, trained);
    count.add("add bias", s.layers, {s.rows() * out});
    count.add("bias backward", trained, {s.rows() * out});
  }
  // Causal pairs (i, j ≤ i) of every head; d columns each, h·d = w.
  const Elements pairs{s.batch * s.sequence * (s.sequence + 1) / 2 * w};
  const auto both = [&](const char* kernel, int64_t times, Elements each) {
    count.add(kernel, times * s.layers, each);
    count.add(std::string(kernel) + " backward", times * backward, each);
  };
  both("layer norm", 2, {s.rows() * w});
  both("attention", 1, pairs);
  both("gelu", 1, {s.rows() * 4 * w});
  count.add("add", 2 * s.layers, {s.rows() * w});  // residuals; backward accumulates in place
}

// One cast a trained tensor, from the fp32 image; a tied token table is stored twice, and read back between.
void add_casts(Counter& count, const GptShape& s, int64_t trained_blocks) {
  const int64_t w = s.width;
  const Elements table{s.vocabulary * w};
  count.add("cast", s.trained_head_weight() ? 1 : 0, table);
  if (s.trained_embeddings()) {
    count.add("cast", s.tied ? 2 : 1, table);
    count.add("cast", 1, {s.positions * w});
  }
  for (const int64_t out : {3 * w, w, 4 * w}) count.add("cast", trained_blocks, {out * w});
  count.add("cast", trained_blocks, {w * 4 * w});
  for (const int64_t bias : {3 * w, w, 4 * w, w}) count.add("cast", trained_blocks, {bias});
  count.add("cast", 4 * trained_blocks + (s.trained_head() ? 2 : 0), {w});  // gains and biases of the norms
}

}  // namespace

// Backward goes down to the first part that is trained; the frozen ones on its way pass their input's
// gradient on, and make none of their own.
WorkLines gpt_work(const GptShape& s, const Recipe& recipe) {
  const Elements stream{s.rows() * s.width};
  Counter count;
  int64_t first = 0;  // block; the embeddings count as the one before it
  while (!s.trained_embeddings() && first < s.layers && !s.trained_block(first)) ++first;
  int64_t trained = 0;
  for (int64_t block = 0; block < s.layers; ++block) trained += s.trained_block(block) ? 1 : 0;
  add_blocks(count, s, s.layers - first, trained);

  add_linear(count, s, s.width, s.vocabulary, 1, 1, s.trained_head_weight() ? 1 : 0);
  count.add("layer norm", 1, stream);
  count.add("layer norm backward", 1, stream);
  count.add("embedding", 1, stream);
  count.add("embedding backward", s.trained_embeddings() ? 1 : 0, stream);
  count.add("cross entropy", 1, {s.rows() * s.vocabulary});
  count.add("cross entropy backward", 1, {s.rows() * s.vocabulary});
  if (recipe.grads != Type::f32) add_casts(count, s, trained);
  return count.take();
}

}  // namespace zp::theory
