// The exact sum of squares against binary digits added by hand, and the clipping factor.
#include "kernels/norm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/base/random.hpp"

namespace zp {
namespace {

constexpr double kSumUnit = 0x1p-100;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A natural number as binary digits, least significant first: slow, and nothing to get wrong.
class Digits {
 public:
  Digits() = default;
  // x is a whole number of units.
  explicit Digits(double x) {
    int exponent = 0;
    auto mantissa = static_cast<int64_t>(std::ldexp(std::frexp(x / kSumUnit, &exponent), 53));
    exponent -= 53;
    for (; mantissa != 0 && exponent < 0; ++exponent) mantissa /= 2;
    for (size_t i = 0; mantissa != 0; ++i, mantissa /= 2) {
      digits_[static_cast<size_t>(exponent) + i] = static_cast<int>(mantissa % 2);
    }
  }
  Digits& operator+=(const Digits& other) {
    int carry = 0;
    for (size_t i = 0; i < digits_.size(); ++i) {
      const int sum = digits_[i] + other.digits_[i] + carry;
      digits_[i] = sum % 2;
      carry = sum / 2;
    }
    return *this;
  }
  // Digits [from, from+32) as a number.
  int64_t limb(size_t from) const {
    int64_t out = 0;
    for (size_t i = 32; i-- > 0;) out = 2 * out + digits_[from + i];
    return out;
  }
  friend bool operator<(const Digits& a, const Digits& b) {
    return std::lexicographical_compare(a.digits_.rbegin(), a.digits_.rend(), b.digits_.rbegin(),
                                        b.digits_.rend());
  }

 private:
  std::array<int, 256> digits_{};
};

// To nearest, ties to even: below 2⁵² units the default rounding of nearbyint, above it is whole already.
double rounded_to_units(double x) { return std::nearbyint(x / kSumUnit) * kSumUnit; }

// Sums of squares of every magnitude that may occur, some of them below the unit.
double term(uint64_t key, uint64_t i) {
  const uint64_t r = random_bits(key, i);
  return std::ldexp(1.0 + static_cast<double>(r & 0xfffffffffffffU) * 0x1p-52,
                    static_cast<int>((r >> 52) % 180) - 105);
}

ExactSum sum_of(const std::vector<double>& terms, size_t begin, size_t end) {
  ExactSum sum;
  for (size_t i = begin; i < end; ++i) sum.add(terms[i]);
  return sum;
}

std::vector<double> terms_of(uint64_t key, size_t count) {
  std::vector<double> terms;
  for (size_t i = 0; i < count; ++i) terms.push_back(term(key, i));
  return terms;
}

Digits digits_of(const std::vector<double>& terms) {
  Digits sum;
  for (const double x : terms) sum += Digits(rounded_to_units(x));
  return sum;
}

TEST(ExactSum, HasTheLimbsOfDigitsAddedByHand) {
  for (uint64_t key = 1; key <= 20; ++key) {
    const auto terms = terms_of(key, 97);
    const Digits want = digits_of(terms);
    const auto got = sum_of(terms, 0, terms.size()).limbs();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i], want.limb(32 * i)) << "key " << key << " limb " << i;
  }
}

TEST(ExactSum, CarriesThroughEveryLimb) {
  ExactSum ones;  // 2¹⁸⁹-1 units: every digit below 2⁸⁹ is 1
  Digits want;
  for (int e = -100; e < 89; ++e) {
    ones.add(std::ldexp(1.0, e));
    want += Digits(std::ldexp(1.0, e));
  }
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(ones.limbs()[i], want.limb(32 * i));
  ExactSum by_block = ones, by_limbs = ones, unit;
  unit.add(kSumUnit);
  by_block.add(kSumUnit);
  by_limbs.add_limbs(unit.limbs());
  EXPECT_EQ(by_block.limbs(), (std::array<int64_t, 6>{0, 0, 0, 0, 0, int64_t{1} << 29}));
  EXPECT_EQ(by_limbs, by_block);
  EXPECT_EQ(by_block.value(), 0x1p89);
}

TEST(ExactSum, IsTheSameInAnyOrder) {
  for (uint64_t key = 1; key <= 5; ++key) {
    auto terms = terms_of(key, 211);
    const ExactSum want = sum_of(terms, 0, terms.size());
    for (uint64_t round = 0; round < 10; ++round) {
      for (size_t i = terms.size() - 1; i > 0; --i) {
        std::swap(terms[i], terms[random_bits(key * 100 + round, i) % (i + 1)]);
      }
      EXPECT_EQ(sum_of(terms, 0, terms.size()), want);
    }
  }
}

TEST(ExactSum, IsTheSameInAnyPartitionIntoSlices) {
  const auto terms = terms_of(77, 209);
  const ExactSum want = sum_of(terms, 0, terms.size());
  for (const size_t slices : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 209U, 300U}) {
    ExactSum one_by_one;
    std::array<int64_t, 6> summed{};
    for (size_t p = 0; p < slices; ++p) {
      const auto limbs = sum_of(terms, p * terms.size() / slices, (p + 1) * terms.size() / slices).limbs();
      one_by_one.add_limbs(limbs);
      for (size_t i = 0; i < 6; ++i) summed[i] += limbs[i];
    }
    EXPECT_EQ(one_by_one, want) << slices;
    ExactSum at_once;  // as an integer all-reduce would leave them
    at_once.add_limbs(summed);
    EXPECT_EQ(at_once, want) << slices;
  }
}

TEST(ExactSum, RoundsABlockToTheNearestUnitTiesToEven) {
  const std::vector<std::pair<double, int64_t>> cases{
      {0.0, 0},
      {0.25 * kSumUnit, 0},
      {0.5 * kSumUnit, 0},
      {1.5 * kSumUnit, 2},
      {2.5 * kSumUnit, 2},
      {3.5 * kSumUnit, 4},
      {kSumUnit, 1},
      {1.25 * kSumUnit, 1},
      {1.75 * kSumUnit, 2},
      {1e-300, 0},
      {5e-324, 0},
      {0x1.0000000000001p-101, 1},
      {0x1.fffffffffffffp-102, 0},
      {0x1.8000000000001p-99, 3},
      {0x1.4p-99, 2},
      {0x1.4000000000001p-99, 3},
  };
  for (const auto& [block, units] : cases) {
    ExactSum sum;
    sum.add(block);
    EXPECT_EQ(sum.limbs()[0], units) << block / kSumUnit;
    for (size_t i = 1; i < 6; ++i) EXPECT_EQ(sum.limbs()[i], 0);
  }
}

// The value is nearest when twice the sum lies between the sums of the value and its neighbours.
TEST(ExactSum, ValueIsTheNearestDouble) {
  int ties = 0;
  for (uint64_t key = 1; key <= 300; ++key) {
    auto terms = terms_of(key, 1 + key % 7);
    // Half an ulp below the largest term, so that ties and near ties occur.
    const double largest = *std::max_element(terms.begin(), terms.end());
    const double half_ulp = (std::nextafter(largest, kInfinity) - largest) / 2;
    if (key % 3 != 0 && half_ulp >= kSumUnit) terms.push_back(half_ulp);
    if (key % 3 == 2 && key % 2 == 0) terms = {largest, half_ulp};
    const double value = sum_of(terms, 0, terms.size()).value();
    Digits twice = digits_of(terms);
    twice += digits_of(terms);
    if (value < 0x1p-47) {  // below 2⁵³ units every sum is a double
      Digits exact = Digits(value);
      exact += Digits(value);
      EXPECT_FALSE(twice < exact || exact < twice) << key;
      continue;
    }
    const double above = std::nextafter(value, kInfinity), below = std::nextafter(value, 0.0);
    Digits high = Digits(value), low = Digits(value);
    high += Digits(above);
    low += Digits(below);
    EXPECT_FALSE(high < twice) << key;
    EXPECT_FALSE(twice < low) << key;
    const bool tie = (!(high < twice) && !(twice < high)) || (!(low < twice) && !(twice < low));
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    if (tie) {
      ++ties;
      EXPECT_EQ(std::fmod(std::ldexp(fraction, 53), 2.0), 0.0) << key;
    }
  }
  EXPECT_GT(ties, 10);
}

TEST(ExactSum, ValueRoundsTiesToEvenAndOverAPowerOfTwo) {
  const auto value_of = [](std::initializer_list<double> terms) {
    ExactSum sum;
    for (const double x : terms) sum.add(x);
    return sum.value();
  };
  EXPECT_EQ(value_of({}), 0.0);
  EXPECT_EQ(value_of({1.0, 0x1p-53}), 1.0);
  EXPECT_EQ(value_of({1.0, 0x1p-53, kSumUnit}), 1.0 + 0x1p-52);
  EXPECT_EQ(value_of({1.0 + 0x1p-52, 0x1p-53}), 1.0 + 0x1p-51);
  EXPECT_EQ(value_of({2.0 - 0x1p-52, 0x1p-53}), 2.0);
  EXPECT_EQ(value_of({kSumUnit}), kSumUnit);
  EXPECT_EQ(value_of({0x1.fffffffffffffp89}), 0x1.fffffffffffffp89);
}

TEST(ExactSum, SaturatesAtTwoToTheNinetyAndStaysSo) {
  ExactSum below;
  below.add(0x1.fffffffffffffp89);
  EXPECT_FALSE(below.saturated());
  below.add(0x1p36);
  EXPECT_FALSE(below.saturated());
  below.add(0x1p37 - 0x1p36);  // reaches 2⁹⁰ exactly
  EXPECT_TRUE(below.saturated());
  for (const double bad : {0x1p90, 1e300, kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    ExactSum sum;
    sum.add(1.0);
    sum.add(bad);
    EXPECT_TRUE(sum.saturated()) << bad;
    sum.add(1.0);
    EXPECT_TRUE(sum.saturated()) << bad;
    EXPECT_EQ(sum.value(), kInfinity);
    EXPECT_EQ(sum.limbs(), (std::array<int64_t, 6>{0, 0, 0, 0, 0, int64_t{1} << 30}));
    EXPECT_EQ(sum, below);
  }
}

TEST(ExactSum, OfAllRanksSaturatesWhenOneDoesOrTogether) {
  ExactSum bad, good, half;
  bad.add(kInfinity);
  good.add(3.5);
  half.add(0x1p89);
  for (const auto& order :
       {std::vector{good, bad, good}, std::vector{bad, bad}, std::vector{half, good, half}}) {
    ExactSum total;
    for (const ExactSum& rank : order) total.add_limbs(rank.limbs());
    EXPECT_TRUE(total.saturated());
    EXPECT_EQ(total, bad);
  }
  // 2²⁰ saturated ranks, added before they arrive.
  ExactSum total;
  total.add_limbs({0, 0, 0, 0, 0, int64_t{1} << 50});
  EXPECT_TRUE(total.saturated());
}

TEST(ExactSum, RefusesANegativeBlockAndALimbThatNoSumGives) {
  ExactSum sum;
  EXPECT_THROW(sum.add(-1.0), Error);
  EXPECT_THROW(sum.add_limbs({-1, 0, 0, 0, 0, 0}), Error);
  EXPECT_THROW(sum.add_limbs({0, 0, 0, int64_t{1} << 60, 0, 0}), Error);
}

TEST(ClipFactor, BringsTheNormDownToTheLimit) {
  EXPECT_EQ(clip_factor(2.0, 1.0), 0.5F);
  EXPECT_EQ(clip_factor(3.0, 1.0), static_cast<float>(1.0 / 3.0));
  EXPECT_EQ(clip_factor(1e30, 1.0), static_cast<float>(1.0 / 1e30));
  EXPECT_EQ(clip_factor(1.0, 1.0), 1.0F);
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0F);
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0F);
  EXPECT_EQ(clip_factor(5.0, 0.0), 1.0F);  // no clipping
}

}  // namespace
}  // namespace zp
