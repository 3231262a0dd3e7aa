// The order in which gradients are added (design 3.4): which micro-batch a place computes when, and how its
// sums are folded with few buffers. Pure arithmetic, used by strategies and by theory; the reference has its
// own account.
#pragma once

#include <string_view>
#include <vector>

namespace zp {

// How a place adds its micro-steps: by the fold, or one after another, which needs no buffers beside the
// scratch and has another order.
enum class Accumulate { fold, sequential };

constexpr std::string_view name_of(Accumulate accumulate) {
  return accumulate == Accumulate::fold ? "fold" : "sequential";
}

// Whether a stage sums its own micro-steps before ranks talk, or reduces every micro-step.
enum class Reduction { after_accumulation, every_micro_step };

// M = A·N micro-batches a step, and how the micro-steps among them are added.
struct Batching {
  int world = 1;          // N
  int micro_batches = 8;  // M
  Accumulate accumulate = Accumulate::fold;
  int micro_steps() const { return micro_batches / world; }  // A
  friend bool operator==(const Batching&, const Batching&) = default;
};

// The smallest multiple of `world` that is at least 8.
int default_micro_batches(int world);

// Number (over the whole job) of the micro-batch that `place` computes as number `element` of its own fold:
// p + element·N when it accumulates first, p·A + element when every micro-step is reduced.
int micro_batch_of(Reduction reduction, const Batching& batching, int place, int element);

// One micro-step of a place's fold. Visits run over the fold tree in post-order, the deeper child first, the
// lower index first on a tie, so that few partial sums live at once.
struct Visit {
  int element = 0;    // which element of the fold is computed now
  int target = 0;     // buffer: 0 is the gradient itself, 1.. are the extra ones
  bool first = true;  // the target is written, not added to
  // Then, in order: buffer `into` += buffer `from`.
  struct Merge {
    int into = 0, from = 0;
    friend bool operator==(const Merge&, const Merge&) = default;
  };
  std::vector<Merge> merges;
  friend bool operator==(const Visit&, const Visit&) = default;
};

// The visits of a fold over `count` elements (h = largest power of two below the count: element i+h is added
// to element i, then the first h are folded). After the last one, buffer 0 holds the sum.
std::vector<Visit> fold_visits(int count);

// Buffers beside the gradient that fold_visits(count) uses: floor(log2(count)) - 1, at least 0.
int extra_fold_buffers(int count);

// Visits of a place's micro-steps, and the buffers beside gradient and scratch that they use: of the fold, or
// each micro-step added in turn, with none.
std::vector<Visit> visits(const Batching& batching);
int extra_buffers(const Batching& batching);

// Whether the result is the fold over all M micro-batches, so that one hash serves every such layout (fp32
// wire). Sums taken one after another are, up to two micro-steps.
bool equals_global_fold(Reduction reduction, const Batching& batching);

}  // namespace zp
