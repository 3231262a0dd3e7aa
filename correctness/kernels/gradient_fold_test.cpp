// The fold of gradients: the order of design 3.4 for every count, in either type, in place, with one division
// and one rounding.
#include "correctness/kernels/either_type.hpp"
#include "correctness/kernels/naive.hpp"

namespace zp::kernels {
namespace {

struct Case {
  int count;
  int64_t length;
  float divisor;
  Type in, out;
  int in_place;  // the input that is also the output, or -1
};

std::vector<Floats> inputs_of(const Case& c) {
  std::vector<Floats> inputs;
  for (int j = 0; j < c.count; ++j) {
    inputs.push_back(kept_as(c.in, data(c.length, 100 + static_cast<uint64_t>(j))));
    for (float& x : inputs.back()) x *= j % 3 == 1 ? 1024.0F : 1.0F;  // so that the order shows
  }
  return inputs;
}

Floats want_of(const Case& c, const std::vector<Floats>& inputs) {
  Floats want;
  for (size_t i = 0; i < static_cast<size_t>(c.length); ++i) {
    Floats parts;
    for (const Floats& input : inputs) parts.push_back(input[i]);
    want.push_back(kept_as(c.out, naive::fold(parts) / c.divisor));
  }
  return want;
}

void expect_fold(const Case& c) {
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

}  // namespace
}  // namespace zp::kernels
