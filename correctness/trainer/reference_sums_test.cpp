// The reference's account of sums against ranks that exchange terms on paper; and which arithmetics are one.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "harness/base/random.hpp"
#include "harness/layout/fold.hpp"
#include "harness/trainer/reference_sums.hpp"

namespace zp {
namespace {

constexpr int kMicroBatches = 24;

bool is_power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

// Every arithmetic with this many micro-batches a step.
std::vector<Arithmetic> arithmetics(int micro_batches, Type grads) {
  std::vector<Arithmetic> all;
  for (int world = 1; world <= micro_batches; ++world) {
    if (micro_batches % world != 0) continue;
    for (const auto reduction : {Reduction::after_accumulation, Reduction::every_micro_step}) {
      for (const auto algorithm : {Algorithm::direct, Algorithm::halving}) {
        if (algorithm == Algorithm::halving && !is_power_of_two(world)) continue;
        for (const auto accumulate : {Accumulate::fold, Accumulate::sequential}) {
          all.push_back({reduction, {world, micro_batches, accumulate}, algorithm, grads});
        }
      }
    }
  }
  return all;
}

std::string described(const Arithmetic& a) {
  return std::string(a.reduction == Reduction::after_accumulation ? "after accumulation"
                                                                  : "every micro-step") +
         ", N = " + std::to_string(a.batching.world) + ", M = " + std::to_string(a.batching.micro_batches) +
         ", " + std::string(name_of(a.algorithm)) + ", " + std::string(name_of(a.grads)) + ", " +
         std::string(name_of(a.batching.accumulate));
}

// ---- On paper: a value is a text, "(a+b)" a sum, "[x]" a value rounded. Micro-batch gradients are stored as
// they are.

std::string plus(const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; }
std::string rounded(const std::string& x) { return x.front() == '(' ? "[" + x + "]" : x; }

enum class Partials { kept, stored };

// Adds element i+h to element i, h the largest power of two below the count, until one is left.
std::string folded(std::vector<std::string> terms, Partials partials) {
  while (terms.size() > 1) {
    const size_t half = std::bit_ceil(terms.size()) / 2;
    for (size_t i = 0; i + half < terms.size(); ++i) {
      terms[i] = plus(terms[i], terms[i + half]);
      if (partials == Partials::stored && terms.size() > 2) terms[i] = rounded(terms[i]);
    }
    terms.resize(half);
  }
  return terms.front();
}

// Recursive halving as ranks do it: in every hop, partners exchange what the other's half of the owners
// needs, and both round. Element p of the result is what the owner at place p ends on.
std::vector<std::string> halved(const std::vector<std::string>& contributions) {
  const size_t world = contributions.size();
  std::vector<std::vector<std::string>> held(world, std::vector<std::string>(world));  // [place][owner]
  for (size_t place = 0; place < world; ++place) held[place].assign(world, contributions[place]);
  for (size_t distance = world / 2; distance > 0; distance /= 2) {
    auto next = held;
    for (size_t place = 0; place < world; ++place) {
      for (size_t owner = 0; owner < world; ++owner) {
        const auto& low = held[place & ~distance][owner];
        const auto& high = held[place | distance][owner];
        next[place][owner] =
            (owner & distance) == (place & distance) ? plus(rounded(low), rounded(high)) : "gone";
      }
    }
    held = next;
  }
  std::vector<std::string> result;
  for (size_t place = 0; place < world; ++place) result.push_back(held[place][place]);
  return result;
}

std::string reduced(const std::vector<std::string>& contributions, Algorithm algorithm) {
  if (algorithm == Algorithm::direct) return folded(contributions, Partials::kept);
  const auto by_owner = halved(contributions);
  for (const auto& sum : by_owner) EXPECT_EQ(sum, by_owner.front()) << "the sum depends on its owner";
  return by_owner.front();
}

// A place's own micro-steps: sums that are added to are stored.
std::string accumulated(const std::vector<std::string>& terms, Accumulate accumulate) {
  if (accumulate == Accumulate::fold) return folded(terms, Partials::stored);
  std::string sum = terms.front();
  for (size_t i = 1; i < terms.size(); ++i) sum = plus(rounded(sum), terms[i]);
  return sum;
}

std::string on_paper(const Arithmetic& a) {
  const int world = a.batching.world, steps = a.batching.micro_batches / world;
  std::vector<std::string> terms;
  if (a.reduction == Reduction::after_accumulation) {
    for (int place = 0; place < world; ++place) {
      std::vector<std::string> own;
      for (int m = place; m < a.batching.micro_batches; m += world) own.push_back(std::to_string(m));
      terms.push_back(rounded(accumulated(own, a.batching.accumulate)));
    }
    return reduced(terms, a.algorithm);
  }
  for (int step = 0; step < steps; ++step) {
    std::vector<std::string> sent;
    sent.reserve(static_cast<size_t>(world));
    for (int place = 0; place < world; ++place) sent.push_back(std::to_string(place * steps + step));
    const std::string sum = reduced(sent, a.algorithm);
    terms.push_back(steps > 1 ? rounded(sum) : sum);
  }
  return accumulated(terms, a.batching.accumulate);
}

std::string written(const Sum& sum) {
  if (sum.is_leaf()) return std::to_string(sum.micro_batch);
  const std::string text = plus(written(*sum.low), written(*sum.high));
  return sum.rounded ? rounded(text) : text;
}

std::string without_rounding(std::string text) {
  std::erase_if(text, [](char c) { return c == '[' || c == ']'; });
  return text;
}

TEST(ReferenceSums, AreWhatRanksTakeAndRoundInTheirExchanges) {
  for (int micro_batches = 1; micro_batches <= kMicroBatches; ++micro_batches) {
    for (const Arithmetic& a : arithmetics(micro_batches, Type::bf16)) {
      EXPECT_EQ(written(*sum_over_micro_batches(a)), on_paper(a)) << described(a);
    }
    for (const Arithmetic& a : arithmetics(micro_batches, Type::f32)) {
      EXPECT_EQ(written(*sum_over_micro_batches(a)), without_rounding(on_paper(a))) << described(a);
    }
  }
}

TEST(ReferenceSums, OfSmallCasesAreThoseOfTheContract) {
  const auto after = Reduction::after_accumulation, every = Reduction::every_micro_step;
  const auto text = [](Reduction reduction, int world, int micro_batches, Algorithm algorithm) {
    return written(*sum_over_micro_batches({reduction, {world, micro_batches}, algorithm, Type::bf16}));
  };
  EXPECT_EQ(text(after, 1, 1, Algorithm::direct), "0");
  EXPECT_EQ(text(after, 1, 2, Algorithm::direct), "[(0+1)]");
  EXPECT_EQ(text(every, 1, 2, Algorithm::direct), "(0+1)");
  EXPECT_EQ(text(after, 1, 3, Algorithm::direct), "[([(0+2)]+1)]");
  EXPECT_EQ(text(every, 1, 3, Algorithm::direct), "([(0+2)]+1)");
  EXPECT_EQ(text(after, 3, 3, Algorithm::direct), "((0+2)+1)");
  EXPECT_EQ(text(after, 2, 4, Algorithm::direct), "([(0+2)]+[(1+3)])");
  EXPECT_EQ(text(every, 2, 4, Algorithm::direct), "([(0+2)]+[(1+3)])");
  EXPECT_EQ(text(after, 4, 4, Algorithm::direct), "((0+2)+(1+3))");
  EXPECT_EQ(text(every, 4, 4, Algorithm::halving), "([(0+2)]+[(1+3)])");
  EXPECT_EQ(text(after, 3, 6, Algorithm::direct), "(([(0+3)]+[(2+5)])+[(1+4)])");
  EXPECT_EQ(text(every, 3, 6, Algorithm::direct), "([((0+4)+2)]+[((1+5)+3)])");
}

TEST(ReferenceSums, KnowTheirHeightSoThatTheDeeperSideGoesFirst) {
  const auto sum =
      sum_over_micro_batches({Reduction::after_accumulation, {1, 6}, Algorithm::direct, Type::f32});
  EXPECT_EQ(sum->height, 3);
  EXPECT_EQ(sum->low->height, 2);   // 0, 2, 4
  EXPECT_EQ(sum->high->height, 2);  // 1, 3, 5
}

TEST(ReferenceSums, RefuseWhatNoLayoutCanDo) {
  EXPECT_THROW(sum_over_micro_batches({Reduction::after_accumulation, {3, 8}, Algorithm::direct, Type::f32}),
               Error);
  EXPECT_THROW(sum_over_micro_batches({Reduction::after_accumulation, {3, 9}, Algorithm::halving, Type::f32}),
               Error);
  EXPECT_THROW(sum_over_micro_batches({Reduction::after_accumulation, {0, 8}, Algorithm::direct, Type::f32}),
               Error);
}

// ---- On numbers.

float stored(float x, Type type) { return type == Type::bf16 ? widen(round_to_bf16(x)) : x; }

float value_of(const Sum& sum, const std::vector<float>& gradients, Type type) {
  if (sum.is_leaf()) return gradients[static_cast<size_t>(sum.micro_batch)];
  const float total = value_of(*sum.low, gradients, type) + value_of(*sum.high, gradients, type);
  return sum.rounded ? stored(total, type) : total;
}

// Gradients of one element in every micro-batch: of all sizes; every third element near the smallest normal
// number, where quotients lose bits; and one whose sum fits fp32 but not bf16.
std::vector<std::vector<float>> elements(int micro_batches, Type type) {
  std::vector<std::vector<float>> all;
  for (uint64_t e = 0; e < 1000; ++e) {
    std::vector<float> gradients;
    for (uint64_t m = 0; m < static_cast<uint64_t>(micro_batches); ++m) {
      const float scale = e % 3 == 0 ? 0x1p-125F : std::ldexp(1.0F, static_cast<int>(random_bits(m, e) % 4));
      gradients.push_back(stored(random_normal(m + 1000, e, scale), type));
    }
    all.push_back(gradients);
  }
  std::vector<float> huge(static_cast<size_t>(micro_batches), 0.0F);
  huge.front() += 0x1p127F;
  huge.back() += 0x1p127F - 0x1p119F;
  all.push_back(huge);
  return all;
}

std::vector<uint32_t> averages(const Arithmetic& a) {
  const auto sum = sum_over_micro_batches(a);
  const int count = a.batching.micro_batches;
  std::vector<uint32_t> bits;
  for (const auto& gradients : elements(count, a.grads)) {
    const float total = value_of(*sum, gradients, a.grads);
    bits.push_back(std::bit_cast<uint32_t>(stored(total / static_cast<float>(count), a.grads)));
  }
  return bits;
}

// Both directions: what is called one has one set of bits, and what is kept apart differs somewhere.
TEST(CanonicalArithmetic, IsSharedByExactlyThoseThatEndOnTheSameBits) {
  for (const Type grads : {Type::f32, Type::bf16}) {
    for (int micro_batches = 2; micro_batches <= kMicroBatches; ++micro_batches) {
      const auto all = arithmetics(micro_batches, grads);
      std::vector<std::vector<uint32_t>> bits;
      bits.reserve(all.size());
      for (const Arithmetic& a : all) bits.push_back(averages(a));
      for (size_t i = 0; i < all.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          EXPECT_EQ(canonical(all[i]) == canonical(all[j]), bits[i] == bits[j])
              << described(all[i]) << " and " << described(all[j]);
        }
      }
    }
  }
}

TEST(CanonicalArithmetic, IsItsOwnAndKeepsTypeAndMicroBatches) {
  for (const Type grads : {Type::f32, Type::bf16}) {
    for (int micro_batches = 1; micro_batches <= kMicroBatches; ++micro_batches) {
      for (const Arithmetic& a : arithmetics(micro_batches, grads)) {
        const Arithmetic c = canonical(a);
        EXPECT_EQ(canonical(c), c) << described(a);
        EXPECT_EQ(c.grads, grads);
        EXPECT_EQ(c.batching.micro_batches, micro_batches);
      }
    }
  }
}

TEST(CanonicalArithmetic, IsOneDeviceWhereTheFoldIsGlobalInFp32) {
  for (int micro_batches = 1; micro_batches <= 64; ++micro_batches) {
    const Arithmetic alone{Reduction::after_accumulation, {1, micro_batches}, Algorithm::direct, Type::f32};
    for (const Arithmetic& a : arithmetics(micro_batches, Type::f32)) {
      EXPECT_EQ(canonical(a) == alone, equals_global_fold(a.reduction, a.batching)) << described(a);
    }
  }
}

TEST(CanonicalArithmetic, OfOneMicroStepDoesNotDependOnTheReductionInBf16) {
  for (int world = 1; world <= kMicroBatches; ++world) {
    const Arithmetic after{Reduction::after_accumulation, {world, world}, Algorithm::direct, Type::bf16};
    Arithmetic every = after;
    every.reduction = Reduction::every_micro_step;
    EXPECT_EQ(canonical(after), canonical(every));
    if (!is_power_of_two(world)) continue;
    Arithmetic halving = after;
    halving.algorithm = Algorithm::halving;
    EXPECT_EQ(canonical(after) == canonical(halving), world <= 2) << world;
  }
}

}  // namespace
}  // namespace zp
