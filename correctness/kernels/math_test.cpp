// exp, tanh and log of the contract against the C library in fp64 and extended precision, over samples of
// every magnitude. The other ISAs give the same bits (elementwise_test, cross_entropy_test).
#define ZP_ISA portable
#define ZP_ISA_AVX2 0
#include "kernels/host/math.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "correctness/kernels/naive.hpp"

namespace zp::kernels {
namespace {

// Distance in units of the last place that a binary32 near `exact` has.
double ulps(float got, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(got - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Worst {
  double ulps = 0.0;
  float at = 0.0F;
};

// f over every `step`-th float of [first, last] (bit patterns, both of one sign).
template <class Got, class Exact>
Worst worst(float first, float last, uint32_t step, Got got, Exact exact) {
  Worst out;
  const auto end = std::bit_cast<uint32_t>(last);
  for (uint64_t bits = std::bit_cast<uint32_t>(first); bits <= end; bits += step) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const double error = ulps(got(x), exact(static_cast<double>(x)));
    if (error > out.ulps) out = {error, x};
  }
  return out;
}

float exp_of(float x) { return portable::exp(x); }
float tanh_of(float x) { return portable::tanh(x); }

TEST(Exp, IsWithinOneAndAHalfUlps) {
  const auto exact = [](double x) { return std::exp(x); };
  for (const auto& [first, last] : {std::pair{0.0F, 64.0F}, std::pair{-0.0F, -104.0F}}) {
    const Worst w = worst(first, last, 4099, exp_of, exact);
    EXPECT_LE(w.ulps, 1.5) << std::hexfloat << w.at;
    EXPECT_GT(w.ulps, 0.5);  // the sample does find errors
  }
}

TEST(Exp, EndsInZero) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_of(-0.0F), 1.0F);
  EXPECT_EQ(exp_of(-104.5F), 0.0F);
  EXPECT_EQ(exp_of(-1e30F), 0.0F);
  EXPECT_EQ(exp_of(-kInfinity), 0.0F);
}

// Powers of two that reach down to subnormal results: the bits of the contract's exponential, in any half.
TEST(Exp, RoundsSubnormalResultsOnceInVectorsAndInPairs) {
  for (float x = 64.0F; x > -106.0F; x -= 0.0137F) {
    const auto want = std::bit_cast<uint32_t>(naive::exponential(x));
    EXPECT_EQ(std::bit_cast<uint32_t>(exp_of(x)), want) << x;
    const auto both =
        portable::exp(portable::Twice<portable::Floats>{portable::splat(1.0F), portable::splat(x)});
    EXPECT_EQ(std::bit_cast<uint32_t>(portable::first(both.two)), want) << x;
    EXPECT_EQ(portable::first(both.one), exp_of(1.0F));
  }
}

TEST(Tanh, IsWithinOneAndAHalfUlpsAndOdd) {
  const auto exact = [](double x) { return std::tanh(x); };
  const Worst w = worst(0.0F, 1e30F, 4099, tanh_of, exact);
  EXPECT_LE(w.ulps, 1.5) << std::hexfloat << w.at;
  EXPECT_GT(w.ulps, 0.5);
  for (float x = 0x1p-140F; x < 1e20F; x *= 1.37F) {
    EXPECT_EQ(std::bit_cast<uint32_t>(tanh_of(-x)), std::bit_cast<uint32_t>(-tanh_of(x))) << x;
  }
  EXPECT_EQ(std::bit_cast<uint32_t>(tanh_of(-0.0F)), 0x80000000U);
  EXPECT_EQ(tanh_of(1e30F), 1.0F);
}

TEST(Log, IsCorrectlyRounded) {
  const auto wrong = [](float first, float last, uint32_t step) {
    int64_t count = 0;
    for (uint64_t b = std::bit_cast<uint32_t>(first); b <= std::bit_cast<uint32_t>(last); b += step) {
      const auto x = std::bit_cast<float>(static_cast<uint32_t>(b));
      if (portable::log(x) != naive::logarithm(x)) ++count;
    }
    return count;
  };
  EXPECT_EQ(wrong(0x1p-149F, std::numeric_limits<float>::max(), 4099), 0);
  EXPECT_EQ(wrong(0.99F, 1.01F, 17), 0);
  EXPECT_EQ(wrong(1.0F, 1.0001F, 1), 0);
  EXPECT_EQ(std::bit_cast<uint32_t>(portable::log(1.0F)), 0U);
}

// The five floats whose logarithm lies so near to a tie that an fp64 result, rounded again, goes the wrong
// way.
TEST(Log, IsCorrectlyRoundedWhereTwoRoundingsWouldFail) {
  for (const float x : {0x1.827a74p-7F, 0x1.2f1fd6p+3F, 0x1.bacb4ap+25F, 0x1.b121a6p+76F, 0x1.6351d8p+95F}) {
    EXPECT_EQ(portable::log(x), naive::logarithm(x)) << std::hexfloat << x;
  }
}

TEST(Lanes, GiveTheBitsOfThirtyTwoSumsForEveryLength) {
  std::vector<float> x;
  for (int64_t n = 0; n < 200; ++n) {
    EXPECT_EQ(std::bit_cast<uint32_t>(portable::row_sum(x.data(), n)),
              std::bit_cast<uint32_t>(naive::sum_in_lanes(x.data(), n)))
        << n;
    x.push_back(1.0F / static_cast<float>(n + 1) * (n % 7 == 0 ? 1000.0F : 1.0F));
  }
}

TEST(Lanes, OfTwoSumsAtOnceGiveTheBitsOfEach) {
  std::vector<float> x, squares;
  for (int64_t n = 0; n < 200; ++n) {
    const auto both = portable::row_lanes_twice(n, [&](auto read, int64_t i, auto lanes) {
      const portable::Floats a = read(x.data() + i);
      return lanes + portable::Twice<portable::Floats>{a, a * a};
    });
    EXPECT_EQ(both.one, naive::sum_in_lanes(x.data(), n)) << n;
    EXPECT_EQ(both.two, naive::sum_in_lanes(squares.data(), n)) << n;
    x.push_back(1.0F / static_cast<float>(n + 1) * (n % 7 == 0 ? 1000.0F : 1.0F));
    squares.push_back(x.back() * x.back());
  }
}

TEST(RowMax, IsTheLargestProduct) {
  std::vector<float> x;
  for (int64_t n = 1; n < 100; ++n) {
    x.push_back(std::sin(static_cast<float>(n * n)) * 3.0F - 2.0F);
    float want = -std::numeric_limits<float>::infinity();
    for (const float a : x) want = std::max(want, a * 0.3F);
    EXPECT_EQ(portable::row_max(x.data(), n, 0.3F), want) << n;
  }
}

}  // namespace
}  // namespace zp::kernels
