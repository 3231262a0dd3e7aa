// Expressions over micro-batches, and which arithmetics share one.
#include "harness/trainer/reference_sums.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/base/check.hpp"

namespace zp {
namespace {

using Term = std::unique_ptr<Sum>;

Term leaf(int micro_batch) {
  auto term = std::make_unique<Sum>();
  term->micro_batch = micro_batch;
  return term;
}

Term add(Term low, Term high) {
  auto term = std::make_unique<Sum>();
  term->micro_batch = std::min(low->micro_batch, high->micro_batch);
  term->height = 1 + std::max(low->height, high->height);
  term->low = std::move(low);
  term->high = std::move(high);
  return term;
}

// Where the additions of one fold are rounded.
struct Rounding {
  bool between = false;  // sums that are added to others of the same fold
  bool last = false;     // the fold's result
};

// The fold of design 3.4, seen from its last addition. Every step of it but the last adds elements at an even
// distance, and the last adds element 1 to element 0: it joins the fold of the even elements to that of the
// odd ones.
Term fold(std::vector<Term> terms, Rounding rounding) {
  if (terms.size() == 1) return std::move(terms.front());
  std::vector<Term> even, odd;
  for (size_t i = 0; i < terms.size(); ++i) (i % 2 == 0 ? even : odd).push_back(std::move(terms[i]));
  const Rounding side{.between = rounding.between, .last = rounding.between};
  Term sum = add(fold(std::move(even), side), fold(std::move(odd), side));
  sum->rounded = rounding.last;
  return sum;
}

bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

// In direct, the owner adds what it received in fp32; in halving, partial sums are sent.
bool rounds_hops(Algorithm algorithm) { return algorithm == Algorithm::halving; }

// One after another.
Term chain(std::vector<Term> terms, Rounding rounding) {
  Term sum = std::move(terms.front());
  for (size_t i = 1; i < terms.size(); ++i) {
    sum = add(std::move(sum), std::move(terms[i]));
    sum->rounded = i + 1 < terms.size() ? rounding.between : rounding.last;
  }
  return sum;
}

// A place's micro-steps, in the way that was asked for.
Term over_micro_steps(std::vector<Term> terms, Accumulate accumulate, Rounding rounding) {
  return accumulate == Accumulate::fold ? fold(std::move(terms), rounding)
                                        : chain(std::move(terms), rounding);
}

// Every place sums its own micro-batches p, p+N, … into its gradient buffer, which rounds each sum; then
// ranks talk.
Term accumulate_first(const Batching& batching, Algorithm algorithm) {
  const int world = batching.world, micro_steps = batching.micro_steps();
  std::vector<Term> places;
  for (int place = 0; place < world; ++place) {
    std::vector<Term> own;
    own.reserve(static_cast<size_t>(micro_steps));
    for (int a = 0; a < micro_steps; ++a) own.push_back(leaf(place + a * world));
    places.push_back(over_micro_steps(std::move(own), batching.accumulate, {.between = true, .last = true}));
  }
  return fold(std::move(places), {.between = rounds_hops(algorithm), .last = false});
}

// Ranks talk after every micro-step, and each owner sums what it received. A sum over places is stored, hence
// rounded, where another micro-step follows or came before; so is every sum over micro-steps but the last.
Term reduce_every_micro_step(const Batching& batching, Algorithm algorithm) {
  const int world = batching.world, micro_steps = batching.micro_steps();
  std::vector<Term> steps;
  for (int a = 0; a < micro_steps; ++a) {
    std::vector<Term> places;
    places.reserve(static_cast<size_t>(world));
    for (int place = 0; place < world; ++place) places.push_back(leaf(place * micro_steps + a));
    steps.push_back(fold(std::move(places), {.between = rounds_hops(algorithm), .last = micro_steps > 1}));
  }
  return over_micro_steps(std::move(steps), batching.accumulate, {.between = true, .last = false});
}

// Every layout of as many micro-batches: folds first, then few ranks.
std::vector<Arithmetic> candidates(const Arithmetic& like) {
  std::vector<Arithmetic> all;
  for (const Accumulate accumulate : {Accumulate::fold, Accumulate::sequential}) {
    for (int world = 1; world <= like.batching.micro_batches; ++world) {
      if (like.batching.micro_batches % world != 0) continue;
      for (const Reduction reduction : {Reduction::after_accumulation, Reduction::every_micro_step}) {
        for (const Algorithm algorithm : {Algorithm::direct, Algorithm::halving}) {
          if (algorithm == Algorithm::halving && !is_power_of_two(world)) continue;
          Arithmetic one = like;
          one.batching.world = world;
          one.batching.accumulate = accumulate;
          one.reduction = reduction;
          one.algorithm = algorithm;
          all.push_back(one);
        }
      }
    }
  }
  return all;
}

void forget_rounding(Sum& sum) {
  if (sum.is_leaf()) return;
  sum.rounded = false;
  forget_rounding(*sum.low);
  forget_rounding(*sum.high);
}

}  // namespace

std::unique_ptr<Sum> sum_over_micro_batches(const Arithmetic& arithmetic) {
  const int world = arithmetic.batching.world, micro_batches = arithmetic.batching.micro_batches;
  require(world > 0 && micro_batches > 0 && micro_batches % world == 0,
          "the micro-batches of a step divide evenly over the world");
  require(arithmetic.algorithm != Algorithm::halving || is_power_of_two(world),
          "halving needs a world that is a power of two");
  Term sum = arithmetic.reduction == Reduction::after_accumulation
                 ? accumulate_first(arithmetic.batching, arithmetic.algorithm)
                 : reduce_every_micro_step(arithmetic.batching, arithmetic.algorithm);
  // Rounding fp32 to fp32 changes nothing.
  if (arithmetic.grads == Type::f32) forget_rounding(*sum);
  return sum;
}

bool same_sums(const Sum& a, const Sum& b) {
  if (a.is_leaf() != b.is_leaf() || a.micro_batch != b.micro_batch) return false;
  if (a.is_leaf()) return true;
  return a.rounded == b.rounded && same_sums(*a.low, *b.low) && same_sums(*a.high, *b.high);
}

// [Note: canonical arithmetic] Two arithmetics whose expressions are the same end on the same bits; nothing
// weaker is taken for equal. (Rounding the sum of M = 2^k gradients before dividing it by M looks like such a
// case, but is none: quotients below the smallest normal number are rounded twice.) The canonical one is the
// first, in the order below, that has the same expression, so an fp32 fold over all M micro-batches becomes
// one device accumulating M of them.
Arithmetic canonical(const Arithmetic& arithmetic) {
  if (arithmetic.wire == GradientWire::i64) {
    // Sums of integers have no order.
    return {.reduction = Reduction::after_accumulation,
            .batching = {.world = 1, .micro_batches = arithmetic.batching.micro_batches},
            .algorithm = Algorithm::direct,
            .grads = arithmetic.grads,
            .wire = arithmetic.wire};
  }
  const auto wanted = sum_over_micro_batches(arithmetic);
  for (const Arithmetic& candidate : candidates(arithmetic)) {
    if (same_sums(*sum_over_micro_batches(candidate), *wanted)) return candidate;
  }
  return arithmetic;
}

}  // namespace zp
