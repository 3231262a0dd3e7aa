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

// Sums do not depend on which side is which.
Term add(Term low, Term high) {
  if (low->micro_batch > high->micro_batch) std::swap(low, high);
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

// A sum sets out from the place after its owner's and takes every place's term on its way there; a hop sends
// it.
Term round_the_ring(std::vector<Term> places, int owner, bool last_rounded) {
  const size_t world = places.size();
  const auto at = [&](size_t hop) -> Term& { return places[(static_cast<size_t>(owner) + hop) % world]; };
  Term sum = std::move(at(1));
  for (size_t hop = 2; hop <= world && world > 1; ++hop) {
    sum = add(std::move(sum), std::move(at(hop)));
    sum->rounded = hop < world || last_rounded;
  }
  return sum;
}

// A place's micro-steps, in the way that was asked for.
Term over_micro_steps(std::vector<Term> terms, Accumulate accumulate, Rounding rounding) {
  return accumulate == Accumulate::fold ? fold(std::move(terms), rounding)
                                        : chain(std::move(terms), rounding);
}

// What ranks make of their places' terms.
struct Exchange {
  Algorithm algorithm = Algorithm::direct;
  int owner = 0;
  Term operator()(std::vector<Term> places, bool last_rounded) const {
    if (algorithm == Algorithm::ring) return round_the_ring(std::move(places), owner, last_rounded);
    return fold(std::move(places), {.between = rounds_hops(algorithm), .last = last_rounded});
  }
};

// Every place sums its own micro-batches p, p+N, … into its gradient buffer, which rounds each sum; then
// ranks talk.
Term accumulate_first(const Batching& batching, const Exchange& exchange) {
  const int world = batching.world, micro_steps = batching.micro_steps();
  std::vector<Term> places;
  for (int place = 0; place < world; ++place) {
    std::vector<Term> own;
    own.reserve(static_cast<size_t>(micro_steps));
    for (int a = 0; a < micro_steps; ++a) own.push_back(leaf(place + a * world));
    places.push_back(over_micro_steps(std::move(own), batching.accumulate, {.between = true, .last = true}));
  }
  return exchange(std::move(places), false);
}

// Ranks talk after every micro-step, and each owner sums what it received. A sum over places is stored, hence
// rounded, where another micro-step follows or came before; so is every sum over micro-steps but the last.
Term reduce_every_micro_step(const Batching& batching, const Exchange& exchange) {
  const int world = batching.world, micro_steps = batching.micro_steps();
  std::vector<Term> steps;
  for (int a = 0; a < micro_steps; ++a) {
    std::vector<Term> places;
    places.reserve(static_cast<size_t>(world));
    for (int place = 0; place < world; ++place) places.push_back(leaf(place * micro_steps + a));
    steps.push_back(exchange(std::move(places), micro_steps > 1));
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
        for (const Algorithm algorithm : {Algorithm::direct, Algorithm::halving, Algorithm::ring}) {
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

int owners(const Arithmetic& arithmetic) {
  const int world = arithmetic.batching.world;
  return arithmetic.algorithm == Algorithm::ring && world > 2 ? world : 1;
}

int64_t first_owned(int64_t unit_length, int world, int place) {
  constexpr int64_t kAlignment = 64;  // design 5
  const int64_t blocks = (unit_length + kAlignment * world - 1) / (kAlignment * world);
  return std::min(unit_length, blocks * kAlignment * place);
}

std::unique_ptr<Sum> sum_over_micro_batches(const Arithmetic& arithmetic, int owner) {
  const int world = arithmetic.batching.world, micro_batches = arithmetic.batching.micro_batches;
  require(world > 0 && micro_batches > 0 && micro_batches % world == 0,
          "the micro-batches of a step divide evenly over the world");
  require(arithmetic.algorithm != Algorithm::halving || is_power_of_two(world),
          "halving needs a world that is a power of two");
  require(owner >= 0 && owner < world, "an owner has a place");
  const Exchange exchange{.algorithm = arithmetic.algorithm, .owner = owner};
  Term sum = arithmetic.reduction == Reduction::after_accumulation
                 ? accumulate_first(arithmetic.batching, exchange)
                 : reduce_every_micro_step(arithmetic.batching, exchange);
  // Rounding fp32 to fp32 changes nothing.
  if (arithmetic.grads == Type::f32) forget_rounding(*sum);
  return sum;
}

std::vector<std::unique_ptr<Sum>> sums_by_owner(const Arithmetic& arithmetic) {
  std::vector<std::unique_ptr<Sum>> sums;
  for (int owner = 0; owner < owners(arithmetic); ++owner)
    sums.push_back(sum_over_micro_batches(arithmetic, owner));
  return sums;
}

namespace {

bool same_for_every_owner(const Arithmetic& a, const Arithmetic& b) {
  if (owners(a) != owners(b)) return false;
  for (int owner = 0; owner < owners(a); ++owner) {
    if (!same_sums(*sum_over_micro_batches(a, owner), *sum_over_micro_batches(b, owner))) return false;
  }
  return true;
}

}  // namespace

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
  for (const Arithmetic& candidate : candidates(arithmetic)) {
    if (same_for_every_owner(candidate, arithmetic)) return candidate;
  }
  return arithmetic;
}

}  // namespace zp
