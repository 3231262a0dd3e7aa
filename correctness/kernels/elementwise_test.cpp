// Kernels of one element each: GELU, sums, casts, initial values, synthetic gradients. Bits of plain loops
// for every host, and GELU against its fp64 definition and slope.
#include <limits>

#include "correctness/kernels/either_type.hpp"
#include "correctness/kernels/naive.hpp"
#include "correctness/kernels/slopes.hpp"

namespace zp::kernels {
namespace {

// The last ones span several blocks of work, with a ragged end.
const std::vector<int64_t> kLengths{0, 1, 7, 8, 31, 32, 33, 65, 1009, 2 * 16384 + 13};

Floats spread(int64_t length, uint64_t seed) {
  Floats x = data(length, seed);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= i % 3 == 0 ? 4.0F : 1.0F;
  return x;
}

TEST(Gelu, HasTheBitsOfAPlainLoopForEveryHost) {
  for (const int64_t n : kLengths) {
    const Floats x = spread(n, 1), dy = data(n, 3);
    Floats want, want_dx;
    for (size_t i = 0; i < x.size(); ++i) {
      want.push_back(naive::gelu(x[i]));
      want_dx.push_back(dy[i] * naive::gelu_slope(x[i]));
    }
    for (const Host& host : hosts()) {
      Bench bench(host);
      GeluForward forward;
      forward.x = bench.put(x);
      forward.y = bench.space(Type::f32, n);
      bench.run(forward);
      EXPECT_TRUE(same_bits(values_of<float>(forward.y), want)) << text_of(host) << " length " << n;
      for (const bool in_place : {false, true}) {
        GeluBackward backward;
        backward.x = forward.x;
        backward.dy = bench.put(dy);
        backward.dx = in_place ? backward.dy : bench.space(Type::f32, n);
        bench.run(backward);
        EXPECT_TRUE(same_bits(values_of<float>(backward.dx), want_dx)) << text_of(host) << " length " << n;
      }
    }
  }
}

double exact_gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(double{0.7978846F} * (x + double{0.044715F} * x * x * x)));
}

TEST(Gelu, IsNearItsDefinitionAndItsBackwardTheSlope) {
  const Floats x = spread(500, 5);
  Floats got, got_slope;
  std::vector<double> exact;
  std::vector<Bounded> bound, bound_slope;
  Slopes slope;
  for (const float a : x) {
    got.push_back(naive::gelu(a));
    got_slope.push_back(naive::gelu_slope(a));
    exact.push_back(exact_gelu(a));
    bound.push_back(naive::gelu(Bounded(a)));
    bound_slope.push_back(naive::gelu_slope(Bounded(a)));
    const Slopes one = slopes({a}, [](const std::vector<double>& moved) { return exact_gelu(moved[0]); });
    slope.value.push_back(one.value[0]);
    slope.error.push_back(one.error[0]);
  }
  EXPECT_TRUE(within_bounds(got, exact, bound));
  EXPECT_TRUE(within_bounds(got_slope, slope.value, bound_slope, slope.error));
}

TEST(Add, IsOneRoundedSumAlsoInPlace) {
  for (const int64_t n : kLengths) {
    const Floats a = data(n, 1), b = data(n, 2);
    Floats want = a;
    for (size_t i = 0; i < want.size(); ++i) want[i] += b[i];
    for (const Host& host : hosts()) {
      for (const int place : {0, 1, 2}) {
        Bench bench(host);
        Add call;
        call.a = bench.put(a);
        call.b = bench.put(b);
        call.y = place == 0 ? call.a : place == 1 ? call.b : bench.space(Type::f32, n);
        bench.run(call);
        EXPECT_TRUE(same_bits(values_of<float>(call.y), want)) << text_of(host) << " length " << n;
      }
    }
  }
}

TEST(Cast, KeepsOrRoundsEveryValueInEveryDirection) {
  for (const int64_t n : kLengths) {
    for (const Type from : {Type::f32, Type::bf16}) {
      for (const Type to : {Type::f32, Type::bf16}) {
        const Floats x = kept_as(from, data(n, 9));
        for (const Host& host : hosts()) {
          Bench bench(host);
          Cast call;
          call.from = put_as(from, x, bench);
          call.to = bench.space(to, n);
          bench.run(call);
          EXPECT_TRUE(same_bits(widened(call.to), kept_as(to, x))) << text_of(host) << " length " << n;
        }
      }
    }
  }
}

// Every bf16 with what lies just above it: nothing, less than half, half, more, almost the next.
TEST(Cast, RoundsToTheNearestBf16TiesToEven) {
  Floats x;
  std::vector<bf16> want;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    const bool is_nan = (high & 0x7fffU) > 0x7f80U;
    for (const uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const bool is_infinite = (high & 0x7fffU) == 0x7f80U;
      x.push_back(std::bit_cast<float>(high << 16 | low));
      const bool up = low > 0x8000U || (low == 0x8000U && high % 2 == 1);
      const auto nearest = static_cast<uint16_t>(high + (up ? 1 : 0));
      want.push_back({is_nan || (is_infinite && low != 0) ? uint16_t{0x7fff} : nearest});
    }
  }
  for (const Host& host : hosts()) {
    Bench bench(host);
    Cast call;
    call.from = bench.put(x);
    call.to = bench.space(Type::bf16, static_cast<int64_t>(x.size()));
    bench.run(call);
    const auto got = values_of<bf16>(call.to);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].bits, want[i].bits) << text_of(host) << " of " << std::hexfloat << x[i];
    }
  }
}

TEST(Initialize, DependsOnKeyAndElementAlone) {
  constexpr int64_t kFirst = (int64_t{1} << 33) + 5;
  for (const int64_t n : kLengths) {
    Floats want;
    for (int64_t i = 0; i < n; ++i)
      want.push_back(random_normal(42, static_cast<uint64_t>(kFirst + i), 0.02F));
    for (const Host& host : hosts()) {
      Bench bench(host);
      for (const Init init : {Init::normal, Init::ones, Init::zeros}) {
        Initialize call;
        call.x = bench.space(Type::f32, n);
        call.init = init;
        call.scale = 0.02F;
        call.key = 42;
        call.first = kFirst;
        bench.run(call);
        const Floats flat(static_cast<size_t>(n), init == Init::ones ? 1.0F : 0.0F);
        const Floats& all = init == Init::normal ? want : flat;
        EXPECT_TRUE(same_bits(values_of<float>(call.x), all)) << text_of(host);
        call.x = bench.space(Type::bf16, n);
        bench.run(call);
        const auto halves = values_of<bf16>(call.x);
        for (size_t i = 0; i < all.size(); ++i) {
          ASSERT_EQ(halves[i].bits, round_to_bf16(all[i]).bits) << text_of(host) << " element " << i;
        }
      }
    }
  }
}

TEST(SyntheticGradient, IsASmallDyadicNumberOfKeyAndElementInEitherType) {
  constexpr int64_t kFirst = 77, kLength = 2 * 16384 + 13;
  Floats want;
  std::vector<int> seen(17);
  for (int64_t i = 0; i < kLength; ++i) {
    const uint64_t upper = random_bits(6, static_cast<uint64_t>(kFirst + i)) >> 32;
    const auto k = static_cast<int>(static_cast<double>(upper) * 17.0 / 4294967296.0) - 8;
    want.push_back(static_cast<float>(k) / 8.0F);
    ++seen[static_cast<size_t>(k + 8)];
  }
  for (const int count : seen) EXPECT_GT(count, kLength / 17 / 2);
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const Host& host : hosts()) {
      Bench bench(host);
      for (const auto& [begin, end] :
           {std::pair{int64_t{0}, kLength}, std::pair{int64_t{13}, int64_t{100}}}) {
        SyntheticGradient call;
        call.grads = bench.space(type, end - begin);
        call.key = 6;
        call.first = kFirst + begin;
        bench.run(call);
        EXPECT_TRUE(same_bits(widened(call.grads), Floats(want.begin() + begin, want.begin() + end)))
            << text_of(host);
      }
    }
  }
}

}  // namespace
}  // namespace zp::kernels
