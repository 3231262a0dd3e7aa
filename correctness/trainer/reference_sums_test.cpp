// The reference's account of sums against ranks that exchange terms on paper; and which arithmetics are one.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "correctness/trainer/reference_lab.hpp"
#include "harness/base/random.hpp"
#include "harness/layout/fold.hpp"
#include "harness/trainer/reference_fixed.hpp"
#include "harness/trainer/reference_sums.hpp"

namespace zp {
namespace {

using lab::stored;

constexpr int kMicroBatches = 24;

bool is_power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

// Every arithmetic with this many micro-batches a step.
std::vector<Arithmetic> arithmetics(int micro_batches, Type grads) {
  std::vector<Arithmetic> all;
  for (int world = 1; world <= micro_batches; ++world) {
    if (micro_batches % world != 0) continue;
    for (const auto reduction : {Reduction::after_accumulation, Reduction::every_micro_step}) {
      for (const auto algorithm : {Algorithm::direct, Algorithm::halving, Algorithm::ring}) {
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

// The term with the lower number first: a sum does not depend on which side is which.
std::string in_order(const std::string& a, const std::string& b) {
  const auto number = [](const std::string& text) {
    return std::stoi(text.substr(text.find_first_not_of("[(")));
  };
  return number(a) < number(b) ? plus(a, b) : plus(b, a);
}

// Slice `owner` sets out from the next place; every place adds what it has, and sends the sum on.
std::string passed_on(const std::vector<std::string>& contributions, size_t owner) {
  const size_t world = contributions.size();
  size_t place = (owner + 1) % world;
  std::string sum = contributions[place];
  while (place != owner) {
    place = (place + 1) % world;
    sum = in_order(rounded(sum), contributions[place]);
  }
  return sum;
}

std::string reduced(const std::vector<std::string>& contributions, Algorithm algorithm, int owner) {
  if (algorithm == Algorithm::ring) return passed_on(contributions, static_cast<size_t>(owner));
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

std::string on_paper(const Arithmetic& a, int owner) {
  const int world = a.batching.world, steps = a.batching.micro_batches / world;
  std::vector<std::string> terms;
  if (a.reduction == Reduction::after_accumulation) {
    for (int place = 0; place < world; ++place) {
      std::vector<std::string> own;
      for (int m = place; m < a.batching.micro_batches; m += world) own.push_back(std::to_string(m));
      terms.push_back(rounded(accumulated(own, a.batching.accumulate)));
    }
    return reduced(terms, a.algorithm, owner);
  }
  for (int step = 0; step < steps; ++step) {
    std::vector<std::string> sent;
    sent.reserve(static_cast<size_t>(world));
    for (int place = 0; place < world; ++place) sent.push_back(std::to_string(place * steps + step));
    const std::string sum = reduced(sent, a.algorithm, owner);
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
      for (int owner = 0; owner < a.batching.world; ++owner)
        EXPECT_EQ(written(*sum_over_micro_batches(a, owner)), on_paper(a, owner)) << described(a);
    }
    for (const Arithmetic& a : arithmetics(micro_batches, Type::f32)) {
      for (int owner = 0; owner < a.batching.world; ++owner) {
        EXPECT_EQ(written(*sum_over_micro_batches(a, owner)), without_rounding(on_paper(a, owner)))
            << described(a);
      }
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

TEST(ReferenceSums, OfARingBeginBehindTheirOwner) {
  const auto text = [](int world, int micro_batches, int owner) {
    return written(*sum_over_micro_batches(
        {Reduction::after_accumulation, {world, micro_batches}, Algorithm::ring, Type::bf16}, owner));
  };
  EXPECT_EQ(text(2, 2, 0), text(2, 2, 1));
  EXPECT_EQ(text(3, 3, 0), "(0+[(1+2)])");
  EXPECT_EQ(text(3, 3, 1), "([(0+2)]+1)");
  EXPECT_EQ(text(3, 3, 2), "([(0+1)]+2)");
}

TEST(CanonicalArithmetic, IsOneDeviceForEveryLayoutInFixedPoint) {
  for (Arithmetic a : arithmetics(kMicroBatches, Type::f32)) {
    a.wire = GradientWire::i64;
    EXPECT_EQ(canonical(a), (Arithmetic{Reduction::after_accumulation,
                                        {1, kMicroBatches},
                                        Algorithm::direct,
                                        Type::f32,
                                        GradientWire::i64}));
  }
}

// Units of 2⁻⁴⁴ by the bits against the library's rounding.
TEST(FixedUnits, AreTheNearestIntegersTiesToEven) {
  for (const auto& [x, units] : std::vector<std::pair<float, int64_t>>{{0x1p-45F, 0},
                                                                       {0x1.8p-44F, 2},
                                                                       {-0x1.4p-43F, -2},
                                                                       {0x1.000002p-45F, 1},
                                                                       {-1.0F, -(int64_t{1} << 44)}}) {
    EXPECT_EQ(fixed_units(x), units) << x;
  }
  for (uint64_t i = 0; i < 20000; ++i) {
    const float x = random_normal(3, i, std::ldexp(1.0F, static_cast<int>(i % 64) - 50));
    ASSERT_EQ(fixed_units(x), std::llrint(std::ldexp(static_cast<double>(x), 44))) << x;
  }
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

// The elements are a unit: places own equal parts of it.
std::vector<uint32_t> averages(const Arithmetic& a) {
  const auto count = a.batching.micro_batches;
  const auto unit = elements(count, a.grads);
  std::vector<std::unique_ptr<Sum>> sums;
  for (int owner = 0; owner < a.batching.world; ++owner) sums.push_back(sum_over_micro_batches(a, owner));
  std::vector<uint32_t> bits;
  for (const auto& gradients : unit) {
    const size_t owner = bits.size() * sums.size() / unit.size();
    const float total = value_of(*sums[owner], gradients, a.grads);
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
      std::vector<Arithmetic> one;
      bits.reserve(all.size());
      for (const Arithmetic& a : all) {
        bits.push_back(averages(a));
        one.push_back(canonical(a));
      }
      for (size_t i = 0; i < all.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          EXPECT_EQ(one[i] == one[j], bits[i] == bits[j])
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
      const bool rotates = a.algorithm == Algorithm::ring && a.batching.world > 2;
      EXPECT_EQ(canonical(a) == alone, !rotates && equals_global_fold(a.reduction, a.batching))
          << described(a);
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
