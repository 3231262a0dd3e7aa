// The fold of gradients: the order of design 3.4 for every count, in either type, in place, with one division
// and one rounding. Sums in fixed point: units, ties, bounds, both roundings on the way back.
#include <cmath>
#include <limits>
#include <utility>

#include "correctness/kernels/either_type.hpp"
#include "correctness/kernels/naive.hpp"

namespace zp::kernels {
namespace {

struct FoldCase {
  int count;
  int64_t length;
  float divisor;
  Type in, out;
  int in_place;  // the input that is also the output, or -1
};

std::vector<Floats> inputs_of(const FoldCase& c) {
  std::vector<Floats> inputs;
  for (int j = 0; j < c.count; ++j) {
    inputs.push_back(kept_as(c.in, data(c.length, 100 + static_cast<uint64_t>(j))));
    for (float& x : inputs.back()) x *= j % 3 == 1 ? 1024.0F : 1.0F;  // so that the order shows
  }
  return inputs;
}

Floats want_of(const FoldCase& c, const std::vector<Floats>& inputs) {
  Floats want;
  for (size_t i = 0; i < static_cast<size_t>(c.length); ++i) {
    Floats parts;
    for (const Floats& input : inputs) parts.push_back(input[i]);
    want.push_back(kept_as(c.out, naive::fold(parts) / c.divisor));
  }
  return want;
}

void expect_fold(const FoldCase& c) {
  const auto inputs = inputs_of(c);
  const Floats want = want_of(c, inputs);
  for (const Host& host : hosts()) {
    Bench bench(host);
    Fold call;
    for (const Floats& input : inputs) call.inputs.push_back(put_as(c.in, input, bench));
    call.out = c.in_place >= 0 ? call.inputs[static_cast<size_t>(c.in_place)] : bench.space(c.out, c.length);
    call.divisor = c.divisor;
    bench.run(call);
    EXPECT_TRUE(same_bits(widened(call.out), want))
        << text_of(host) << " count " << c.count << " length " << c.length;
  }
}

TEST(Fold, AddsInTheOrderOfTheContractForEveryCount) {
  for (int count = 1; count <= 17; ++count) expect_fold({count, 67, 1.0F, Type::f32, Type::f32, -1});
  for (const int count : {31, 32, 33, 64, 100}) expect_fold({count, 33, 8.0F, Type::f32, Type::f32, -1});
}

TEST(Fold, DividesOnceAndRoundsOnceInEitherType) {
  for (const Type in : {Type::f32, Type::bf16}) {
    for (const Type out : {Type::f32, Type::bf16}) {
      for (const int count : {1, 2, 3, 5, 8}) {
        for (const float divisor : {1.0F, 3.0F, 7.0F, 8.0F}) expect_fold({count, 65, divisor, in, out, -1});
      }
    }
  }
}

TEST(Fold, MayWriteOverAnyInput) {
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const int count : {1, 2, 3, 6}) {
      for (int j = 0; j < count; ++j) expect_fold({count, 2 * 16384 + 13, 6.0F, type, type, j});
    }
  }
}

TEST(Fold, TakesAnyLength) {
  for (const int64_t length : {0, 1, 7, 8, 31, 32, 33, 1009}) {
    expect_fold({3, length, 3.0F, Type::f32, Type::f32, -1});
    expect_fold({3, length, 3.0F, Type::bf16, Type::bf16, 0});
  }
}

TEST(Fold, MixesInputsOfBothTypes) {
  const Floats a = data(40, 1), b = kept_as(Type::bf16, data(40, 2)), c = data(40, 3);
  for (const Host& host : hosts()) {
    Bench bench(host);
    Fold call;
    call.inputs = {bench.put(a), put_as(Type::bf16, b, bench), bench.put(c)};
    call.out = call.inputs[0];
    bench.run(call);
    Floats want;
    for (size_t i = 0; i < a.size(); ++i) want.push_back((a[i] + c[i]) + b[i]);
    EXPECT_TRUE(same_bits(values_of<float>(call.out), want)) << text_of(host);
  }
}

TEST(Fold, RefusesNoInputsAndInputsOfAnotherLength) {
  for (const Host& host : hosts()) {
    Bench bench(host);
    Fold call;
    call.out = bench.space(Type::f32, 4);
    EXPECT_THROW(bench.run(call), Error);
    call.inputs = {bench.put(data(4, 1)), bench.put(data(5, 1))};
    EXPECT_THROW(bench.run(call), Error);
  }
}

// ---- Fixed point

constexpr float kUnit = 0x1p-44F;

std::vector<int64_t> fixed_of(const Floats& values, int64_t terms, const Host& host) {
  Bench bench(host);
  const View to = bench.space(Type::i64, static_cast<int64_t>(values.size()));
  bench.run(ToFixed{.from = bench.put(values), .to = to, .terms = terms});
  return values_of<int64_t>(to);
}

TEST(ToFixed, RoundsToTheNearestUnitAndTiesToEven) {
  const std::vector<std::pair<float, int64_t>> cases{
      {1.0F, int64_t{1} << 44},
      {-1.0F, -(int64_t{1} << 44)},
      {kUnit, 1},
      {0.5F * kUnit, 0},
      {1.5F * kUnit, 2},
      {2.5F * kUnit, 2},
      {-0.5F * kUnit, 0},
      {-1.5F * kUnit, -2},
      {0x1.000002p-1F * kUnit, 1},
      {0x1.fffffep-2F * kUnit, 0},
      {0x1p-149F, 0},
      {-0.0F, 0},
      {0x1.fffffep18F, std::numeric_limits<int64_t>::max() - (int64_t{1} << 39) + 1},
      {0x1.000002p0F, (int64_t{1} << 44) + (1 << 21)}};
  Floats values;
  for (int again = 0; again < 5; ++again) {
    for (const auto& [x, z] : cases) values.push_back(x);
  }
  for (const Host& host : hosts()) {
    const std::vector<int64_t> got = fixed_of(values, 1, host);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i], cases[i % cases.size()].second) << text_of(host) << " " << values[i];
    }
  }
}

TEST(ToFixed, IsTheNearestIntegerOfAnyNumber) {
  Floats values = data(5 * 16384 + 3, 77);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= std::ldexp(1.0F, static_cast<int>(i % 48) - 40);
  for (const Host& host : hosts()) {
    const std::vector<int64_t> got = fixed_of(values, 8, host);
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], std::llrint(std::ldexp(static_cast<double>(values[i]), 44))) << values[i];
  }
}

TEST(ToFixed, AddsToWhatIsThere) {
  for (const Host& host : hosts()) {
    Bench bench(host);
    std::vector<int64_t> there, want;
    Floats values;
    for (int again = 0; again < 7; ++again) {
      there.insert(there.end(), {5, -7, int64_t{1} << 50});
      values.insert(values.end(), {kUnit, kUnit, -kUnit});
      want.insert(want.end(), {6, -6, (int64_t{1} << 50) - 1});
    }
    const View sum = bench.put(there);
    bench.run(ToFixed{.from = bench.put(values), .to = sum, .write = Write::accumulate});
    EXPECT_EQ(values_of<int64_t>(sum), want) << text_of(host);
  }
}

TEST(ToFixed, RefusesWhatASumOfItsTermsCouldNotHold) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const Host& host : hosts()) {
    for (const float bad : {0x1p16F, -0x1p16F, inf, -inf, std::nanf("")}) {
      Floats values = data(16384 + 40, 5);
      values[16384 + 7] = bad;
      try {
        fixed_of(values, 8, host);
        ADD_FAILURE() << bad << " was taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::bits);
        EXPECT_NE(std::string(error.what()).find("element 16391"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("2^19/8"), std::string::npos) << error.what();
      }
    }
  }
}

TEST(ToFixed, LetsTheLargestTermsBeSummedWithoutWrapping) {
  constexpr float most = 0x1.fffffep15F;  // below 2^19/8
  for (const Host& host : hosts()) {
    for (const float sign : {1.0F, -1.0F}) {
      Bench bench(host);
      Fold call;
      for (int i = 0; i < 8; ++i) {
        call.inputs.push_back(bench.space(Type::i64, 3));
        bench.run(ToFixed{.from = bench.put(Floats(3, sign * most)), .to = call.inputs.back(), .terms = 8});
      }
      call.out = bench.space(Type::f32, 3);
      call.divisor = 8.0F;
      bench.run(call);
      EXPECT_TRUE(same_bits(values_of<float>(call.out), Floats(3, sign * most))) << text_of(host);
    }
  }
}

// Through fp64: 2^54 + 2^30 + 1 first becomes a tie of fp32, which then goes down; straight to fp32 it would
// go up.
TEST(IntegerFold, RoundsToNearestEvenAtEachOfItsTwoConversionsAndDividesAfterwards) {
  constexpr int64_t tie = (int64_t{1} << 54) + (int64_t{1} << 30) + 1;
  for (const Host& host : hosts()) {
    Bench bench(host);
    const View out = bench.space(Type::f32, 3);
    bench.run(
        Fold{.inputs = {bench.put(std::vector<int64_t>{tie, -tie, 3 << 20})}, .out = out, .divisor = 3.0F});
    EXPECT_TRUE(same_bits(values_of<float>(out), {1024.0F / 3.0F, -1024.0F / 3.0F, 0x1p-24F}))
        << text_of(host);
  }
}

TEST(IntegerFold, RoundsAnyIntegerAsOneAlone) {
  std::vector<int64_t> z(500);
  for (size_t i = 0; i < z.size(); ++i)  // of every length, and near the largest
    z[i] = i < 490 ? static_cast<int64_t>(random_bits(3, i)) >> (i % 63)
                   : INT64_MAX - static_cast<int64_t>(i) * 97;
  for (const Host& host : hosts()) {
    Bench bench(host);
    const View out = bench.space(Type::f32, static_cast<int64_t>(z.size()));
    bench.run(Fold{.inputs = {bench.put(z)}, .out = out, .divisor = 7.0F});
    const Floats got = values_of<float>(out);
    for (size_t i = 0; i < z.size(); ++i) {
      const auto want = static_cast<float>(std::ldexp(static_cast<double>(z[i]), -44)) / 7.0F;
      ASSERT_EQ(got[i], want) << text_of(host) << " " << z[i];
    }
  }
}

TEST(IntegerFold, AddsIntegersInPlaceAtAnyLength) {
  for (const int64_t length : {1, 511, 512, 513, 16385}) {
    for (const Host& host : hosts()) {
      Bench bench(host);
      std::vector<std::vector<int64_t>> terms(5, std::vector<int64_t>(static_cast<size_t>(length)));
      std::vector<int64_t> want(static_cast<size_t>(length));
      Fold call;
      for (size_t t = 0; t < terms.size(); ++t) {
        for (size_t i = 0; i < want.size(); ++i) {
          terms[t][i] = static_cast<int64_t>(random_bits(t, i)) >> 4;
          want[i] += terms[t][i];
        }
        call.inputs.push_back(bench.put(terms[t]));
      }
      call.out = call.inputs[3];
      bench.run(call);
      EXPECT_EQ(values_of<int64_t>(call.out), want) << text_of(host) << " length " << length;
    }
  }
}

TEST(IntegerFold, RefusesToDivideIntegersAndInputsOfOtherTypes) {
  for (const Host& host : hosts()) {
    Bench bench(host);
    const View z = bench.put(std::vector<int64_t>{1, 2});
    EXPECT_THROW(bench.run(Fold{.inputs = {z, z}, .out = z, .divisor = 2.0F}), Error);
    EXPECT_THROW(bench.run(Fold{.inputs = {z, bench.put(Floats{1, 2})}, .out = z}), Error);
  }
}

}  // namespace
}  // namespace zp::kernels
