// Layer norm: the bits of plain loops, and fp64 formulas and slopes within bounds that follow from the order
// of operations.
#include "correctness/kernels/either_type.hpp"
#include "correctness/kernels/naive.hpp"
#include "correctness/kernels/slopes.hpp"

namespace zp::kernels {
namespace {

struct NormCase {
  Type type;
  int64_t rows, width;
};

std::vector<NormCase> norm_cases() {
  std::vector<NormCase> all;
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const int64_t width : {1, 7, 8, 31, 32, 33, 65, 127, 384}) all.push_back({type, 5, width});
    for (const int64_t rows : {1, 2, 61}) all.push_back({type, rows, 37});
  }
  return all;
}

struct NormInputs {
  explicit NormInputs(const NormCase& c)
      : x(data(c.rows * c.width, 1)),
        gain(kept_as(c.type, data(c.width, 3))),
        bias(kept_as(c.type, data(c.width, 5))),
        dy(data(c.rows * c.width, 7)),
        dx(data(c.rows * c.width, 9)) {
    for (float& a : x) a += 0.75F;  // a mean that matters
  }
  Floats x, gain, bias, dy, dx;
};

// y of fp64, straight from the definition.
std::vector<double> exact_norm(const std::vector<double>& x, const std::vector<double>& gain,
                               const std::vector<double>& bias) {
  const size_t width = gain.size();
  std::vector<double> y(x.size());
  for (size_t at = 0; at < x.size(); at += width) {
    double mean = 0.0, variance = 0.0;
    for (size_t c = 0; c < width; ++c) mean += x[at + c] / static_cast<double>(width);
    for (size_t c = 0; c < width; ++c) variance += std::pow(x[at + c] - mean, 2) / static_cast<double>(width);
    for (size_t c = 0; c < width; ++c) {
      y[at + c] = (x[at + c] - mean) / std::sqrt(variance + double{1e-5F}) * gain[c] + bias[c];
    }
  }
  return y;
}

TEST(LayerNorm, HasTheBitsOfPlainLoopsForEveryHost) {
  for (const NormCase& c : norm_cases()) {
    const NormInputs in(c);
    const auto want = naive::layer_norm(in.x, in.gain, in.bias, c.rows);
    for (const Host& host : hosts()) {
      Bench bench(host);
      LayerNormForward call;
      call.x = bench.put(in.x);
      call.gain = put_as(c.type, in.gain, bench);
      call.bias = put_as(c.type, in.bias, bench);
      call.y = bench.space(Type::f32, c.rows * c.width);
      call.mean = bench.space(Type::f32, c.rows);
      call.rstd = bench.space(Type::f32, c.rows);
      call.rows = c.rows;
      call.width = c.width;
      bench.run(call);
      EXPECT_TRUE(same_bits(values_of<float>(call.y), want.y)) << text_of(host) << " width " << c.width;
      EXPECT_TRUE(same_bits(values_of<float>(call.mean), want.mean)) << text_of(host) << " width " << c.width;
      EXPECT_TRUE(same_bits(values_of<float>(call.rstd), want.rstd)) << text_of(host) << " width " << c.width;
    }
  }
}

TEST(LayerNormBackward, HasTheBitsOfPlainLoopsForEveryHost) {
  for (const NormCase& c : norm_cases()) {
    const NormInputs in(c);
    const auto forward = naive::layer_norm(in.x, in.gain, in.bias, c.rows);
    const auto want = naive::layer_norm_backward(in.x, in.gain, forward, in.dy);
    Floats added = in.dx;
    for (size_t i = 0; i < added.size(); ++i) added[i] += want.dx[i];
    for (const Host& host : hosts()) {
      for (const bool in_place : {false, true}) {
        for (const Write write : {Write::overwrite, Write::accumulate}) {
          if (in_place && write == Write::accumulate) continue;
          Bench bench(host);
          LayerNormBackward call;
          call.x = bench.put(in.x);
          call.gain = put_as(c.type, in.gain, bench);
          call.mean = bench.put(forward.mean);
          call.rstd = bench.put(forward.rstd);
          call.dy = bench.put(in.dy);
          call.dx = in_place ? call.dy : bench.put(in.dx);
          call.dgain = bench.space(Type::f32, c.width);
          call.dbias = bench.space(Type::f32, c.width);
          call.rows = c.rows;
          call.width = c.width;
          call.write = write;
          LayerNormBackward frozen = call;
          frozen.dgain = frozen.dbias = {};
          frozen.dy = bench.put(in.dy);
          frozen.dx = in_place ? frozen.dy : bench.put(in.dx);
          bench.run(call);
          bench.run(frozen);
          EXPECT_TRUE(same_bits(values_of<float>(call.dx), write == Write::overwrite ? want.dx : added))
              << text_of(host) << " width " << c.width;
          EXPECT_TRUE(same_bits(values_of<float>(frozen.dx), values_of<float>(call.dx)))
              << "without gain and bias, " << text_of(host) << " width " << c.width;
          EXPECT_TRUE(same_bits(values_of<float>(call.dgain), want.dgain))
              << text_of(host) << " width " << c.width;
          EXPECT_TRUE(same_bits(values_of<float>(call.dbias), want.dbias))
              << text_of(host) << " width " << c.width;
        }
      }
    }
  }
}

TEST(LayerNorm, IsAsNearToTheDefinitionAsItsOrderAllows) {
  for (const NormCase& c : norm_cases()) {
    const NormInputs in(c);
    const auto got = naive::layer_norm(in.x, in.gain, in.bias, c.rows).y;
    const auto bound =
        naive::layer_norm(bounded_list(in.x), bounded_list(in.gain), bounded_list(in.bias), c.rows).y;
    EXPECT_TRUE(within_bounds(
        got, exact_norm(widened_to_fp64(in.x), widened_to_fp64(in.gain), widened_to_fp64(in.bias)), bound));
  }
}

TEST(LayerNormBackward, IsTheSlopeOfTheDefinition) {
  for (const NormCase& c :
       {NormCase{Type::f32, 3, 33}, NormCase{Type::f32, 5, 7}, NormCase{Type::bf16, 2, 65}}) {
    const NormInputs in(c);
    const auto forward = naive::layer_norm(in.x, in.gain, in.bias, c.rows);
    const auto got = naive::layer_norm_backward(in.x, in.gain, forward, in.dy);
    const auto exact_forward_of =
        naive::layer_norm(bounded_list(in.x), bounded_list(in.gain), bounded_list(in.bias), c.rows);
    const auto bound = naive::layer_norm_backward(bounded_list(in.x), bounded_list(in.gain), exact_forward_of,
                                                  bounded_list(in.dy));
    const auto x = widened_to_fp64(in.x), gain = widened_to_fp64(in.gain), bias = widened_to_fp64(in.bias),
               dy = widened_to_fp64(in.dy);
    const auto loss = [&](const std::vector<double>& y) { return inner_product(y, dy); };
    const Slopes dx = slopes(x, [&](const auto& moved) { return loss(exact_norm(moved, gain, bias)); });
    const Slopes dgain = slopes(gain, [&](const auto& moved) { return loss(exact_norm(x, moved, bias)); });
    const Slopes dbias = slopes(bias, [&](const auto& moved) { return loss(exact_norm(x, gain, moved)); });
    EXPECT_TRUE(within_bounds(got.dx, dx.value, bound.dx, dx.error));
    EXPECT_TRUE(within_bounds(got.dgain, dgain.value, bound.dgain, dgain.error));
    EXPECT_TRUE(within_bounds(got.dbias, dbias.value, bound.dbias, dbias.error));
  }
}

}  // namespace
}  // namespace zp::kernels
