// Sums of squares by blocks of 64: the same exact sum for every host, type and slicing; a bad value saturates
// it.
#include <cmath>
#include <limits>

#include "correctness/kernels/either_type.hpp"

namespace zp::kernels {
namespace {

ExactSum sum_on(const Host& host, Type type, const Floats& x) {
  Bench bench(host);
  ExactSum sum;
  SquareSum call;
  call.grads = put_as(type, x, bench);
  call.sum = &sum;
  bench.run(call);
  return sum;
}

ExactSum plain_sum(const Floats& x) {
  ExactSum sum;
  for (size_t begin = 0; begin < x.size(); begin += 64) {
    double block = 0.0;
    for (size_t i = begin; i < std::min(begin + 64, x.size()); ++i) block += double{x[i]} * double{x[i]};
    sum.add(block);
  }
  return sum;
}

const std::vector<int64_t> kSquaresLengths{0, 1, 31, 63, 64, 65, 127, 511, 512, 513, 1009, 3 * 16384 + 77};

TEST(SquareSum, IsThatOfAPlainLoopForEveryHost) {
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const int64_t n : kSquaresLengths) {
      const Floats x = kept_as(type, data(n, 3));
      for (const Host& host : hosts()) {
        EXPECT_EQ(sum_on(host, type, x), plain_sum(x)) << text_of(host) << " length " << n;
      }
    }
  }
}

// Of blocks that lie side by side, all or only some may be zero, too small not to be rounded, or very large.
TEST(SquareSum, TakesBlocksOfEverySizeSideBySide) {
  for (int exponent = -60; exponent <= 40; exponent += 4) {
    for (const int apart : {0, 1, 9, 60}) {
      Floats x = data(64 * 37 + 5, 17);
      for (size_t i = 0; i < x.size(); ++i) {
        const size_t block = i / 64;
        x[i] = block % 5 == 2 ? 0.0F : std::ldexp(x[i], exponent - (block % 7 == 3 ? apart : 0));
      }
      for (const Type type : {Type::f32, Type::bf16}) {
        const Floats kept = kept_as(type, x);
        for (const Host& host : hosts()) {
          EXPECT_EQ(sum_on(host, type, kept), plain_sum(kept)) << text_of(host) << " 2^" << exponent;
        }
      }
    }
  }
}

TEST(SquareSum, AddsToWhatTheSumHolds) {
  const Floats x = data(100, 3), y = data(200, 5);
  for (const Host& host : hosts()) {
    Bench bench(host);
    ExactSum sum;
    for (const Floats* part : {&x, &y}) {
      SquareSum call;
      call.grads = bench.put(*part);
      call.sum = &sum;
      bench.run(call);
    }
    ExactSum want = plain_sum(x);
    want.add_limbs(plain_sum(y).limbs());
    EXPECT_EQ(sum, want);
  }
}

TEST(SquareSum, IsTheSameInSlicesCutBetweenBlocks) {
  const Floats x = data(64 * 53 + 17, 7);
  for (const Host& host : hosts()) {
    const ExactSum want = sum_on(host, Type::f32, x);
    for (const size_t slices : {1U, 2U, 3U, 4U, 7U, 8U, 60U}) {
      const size_t slice = 64 * ((54 + slices - 1) / slices);
      ExactSum total;
      for (size_t p = slices; p-- > 0;) {  // the last place first
        const size_t begin = std::min(p * slice, x.size()), end = std::min(begin + slice, x.size());
        total.add_limbs(
            sum_on(host, Type::f32,
                   Floats(x.begin() + static_cast<int64_t>(begin), x.begin() + static_cast<int64_t>(end)))
                .limbs());
      }
      EXPECT_EQ(total, want) << text_of(host) << " slices " << slices;
    }
  }
}

// Squares are exact, so a block of 64 rounds 63 times in fp64 (some 64·2⁻⁵³), then once to 2⁻¹⁰⁰; the value
// once more.
TEST(SquareSum, IsNearTheSumInExtendedPrecision) {
  for (const int64_t n : kSquaresLengths) {
    const Floats x = data(n, 11);
    long double exact = 0.0L;
    for (const float a : x) exact += static_cast<long double>(a) * static_cast<long double>(a);
    const long double allowed = 66.0L * 0x1p-53L * exact + static_cast<long double>(n / 64 + 1) * 0x1p-101L;
    EXPECT_LE(std::abs(static_cast<long double>(plain_sum(x).value()) - exact), allowed) << n;
  }
}

TEST(SquareSum, SaturatesWhereverABadOrHugeValueStands) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), 0x1p45F}) {
    for (const size_t at : {0U, 63U, 64U, 300U, 511U, 1023U, 1500U, 2047U, 2048U, 2747U}) {
      Floats x = data(2748, 13);
      x[at] = bad;
      for (const Host& host : hosts()) {
        for (const Type type : {Type::f32, Type::bf16}) {
          EXPECT_TRUE(sum_on(host, type, x).saturated()) << text_of(host) << " element " << at;
        }
      }
    }
  }
}

}  // namespace
}  // namespace zp::kernels
