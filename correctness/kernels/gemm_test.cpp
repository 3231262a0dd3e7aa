// The matrix product: its bits against a loop that follows the contract's order, its values against fp64.
#include <cmath>

#include "correctness/kernels/hosts.hpp"

namespace zp::kernels {
namespace {

struct GemmShape {
  int64_t m, n, k;
};

struct GemmCase {
  GemmShape shape;
  Transpose a_stored, b_stored;
  Type b_type;
  Write write;
};

std::string text_of(const GemmCase& c) {
  return std::to_string(c.shape.m) + " x " + std::to_string(c.shape.n) + " x " + std::to_string(c.shape.k) +
         (c.a_stored == Transpose::yes ? " T" : " N") + (c.b_stored == Transpose::yes ? "T " : "N ") +
         std::string(name_of(c.b_type)) + (c.write == Write::accumulate ? " accumulate" : "");
}

struct Matrices {
  std::vector<float> a, b, c;

  explicit Matrices(const GemmCase& one)
      : a(data(one.shape.m * one.shape.k, 1)),
        b(data(one.shape.k * one.shape.n, 2)),
        c(data(one.shape.m * one.shape.n, 3)) {
    if (one.b_type != Type::bf16) return;
    for (float& x : b) x = widen(round_to_bf16(x));
  }
};

float a_at(const GemmCase& c, const Matrices& x, int64_t i, int64_t k) {
  return x.a[static_cast<size_t>(c.a_stored == Transpose::yes ? k * c.shape.m + i : i * c.shape.k + k)];
}
float b_at(const GemmCase& c, const Matrices& x, int64_t k, int64_t j) {
  return x.b[static_cast<size_t>(c.b_stored == Transpose::yes ? j * c.shape.k + k : k * c.shape.n + j)];
}

// Chains of 512 fused multiply-adds, each from +0, added in turn.
std::vector<float> in_order(const GemmCase& c, const Matrices& x) {
  std::vector<float> result = x.c;
  for (int64_t i = 0; i < c.shape.m; ++i) {
    for (int64_t j = 0; j < c.shape.n; ++j) {
      float& out = result[static_cast<size_t>(i * c.shape.n + j)];
      bool empty = c.write == Write::overwrite;
      int64_t k = 0;
      do {
        float chain = 0.0F;
        const int64_t end = std::min(k + 512, c.shape.k);
        for (; k < end; ++k) chain = std::fma(a_at(c, x, i, k), b_at(c, x, k, j), chain);
        out = empty ? chain : out + chain;
        empty = false;
      } while (k < c.shape.k);
    }
  }
  return result;
}

std::vector<float> computed(const Host& host, const GemmCase& c, const Matrices& x) {
  Bench bench(host);
  Gemm call;
  call.a = bench.put(x.a);
  call.b = c.b_type == Type::bf16 ? bench.put(rounded(x.b)) : bench.put(x.b);
  call.c = c.write == Write::accumulate ? bench.put(x.c) : bench.space(Type::f32, c.shape.m * c.shape.n);
  call.a_stored = c.a_stored;
  call.b_stored = c.b_stored;
  call.m = c.shape.m;
  call.n = c.shape.n;
  call.k = c.shape.k;
  call.write = c.write;
  bench.run(call);
  return values_of<float>(call.c);
}

std::vector<GemmCase> cases_of(const GemmShape& shape) {
  std::vector<GemmCase> cases;
  for (const Transpose a : {Transpose::no, Transpose::yes}) {
    for (const Transpose b : {Transpose::no, Transpose::yes}) {
      for (const Type type : {Type::f32, Type::bf16}) {
        for (const Write write : {Write::overwrite, Write::accumulate})
          cases.push_back({shape, a, b, type, write});
      }
    }
  }
  return cases;
}

class GemmOfEveryShape : public testing::TestWithParam<GemmShape> {};

TEST_P(GemmOfEveryShape, HasTheBitsOfTheOrderedLoopOnEveryIsaAndThreadCount) {
  for (const GemmCase& c : cases_of(GetParam())) {
    const Matrices x(c);
    const std::vector<float> expected = in_order(c, x);
    for (const Host& host : hosts()) {
      EXPECT_TRUE(same_bits(computed(host, c, x), expected)) << text_of(c) << " on " << text_of(host);
    }
  }
}

// A sum of products in any order that passes every product through at most r roundings errs by at most
// γ(r)·Σ|a·b|, γ(r) = r·u/(1 - r·u), u = 2⁻²⁴ (Higham, Accuracy and Stability, 3.1). Here r is one rounding
// per fma of a chain and one per chain that is added; products that underflow add up to half the smallest
// subnormal each.
TEST_P(GemmOfEveryShape, ErrsWithinTheBoundOfItsOrder) {
  for (const GemmCase& c : cases_of(GetParam())) {
    const Matrices x(c);
    const std::vector<float> got = computed(hosts().back(), c, x);
    const auto [m, n, k] = c.shape;
    const auto roundings = static_cast<double>(std::min<int64_t>(k, 512) + (k + 511) / 512);
    const double gamma = roundings * 0x1p-24 / (1.0 - roundings * 0x1p-24);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<size_t>(i * n + j);
        double sum = c.write == Write::accumulate ? x.c[at] : 0.0;
        double magnitude = std::fabs(sum);
        for (int64_t l = 0; l < k; ++l) {
          const double product = double{a_at(c, x, i, l)} * b_at(c, x, l, j);
          sum += product;
          magnitude += std::fabs(product);
        }
        const double bound = gamma * magnitude + static_cast<double>(k) * 0x1p-150 + magnitude * 0x1p-40;
        ASSERT_LE(std::fabs(got[at] - sum), bound) << text_of(c) << " at " << i << ", " << j;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , GemmOfEveryShape,
    testing::Values(GemmShape{0, 5, 3}, GemmShape{5, 0, 3}, GemmShape{5, 7, 0}, GemmShape{1, 1, 1},
                    GemmShape{6, 16, 8}, GemmShape{6, 16, 512}, GemmShape{7, 17, 511}, GemmShape{13, 33, 513},
                    GemmShape{5, 3, 1023}, GemmShape{12, 32, 1024}, GemmShape{7, 15, 1025},
                    GemmShape{197, 31, 40}, GemmShape{3, 1041, 29}, GemmShape{64, 48, 96}),
    [](const auto& info) {
      const GemmShape& s = info.param;
      return "m" + std::to_string(s.m) + "_n" + std::to_string(s.n) + "_k" + std::to_string(s.k);
    });

TEST(Gemm, OfPartsOfBuffersTouchesNothingElse) {
  for (const Host& host : hosts()) {
    Bench bench(host);
    const std::vector<float> all = data(7 + 9 * 5 + 5 * 11, 4);
    const View inputs = bench.put(all);
    const View outputs = bench.put(std::vector<float>(3 + 99 + 20, 7.5F));
    Gemm call;
    call.a = inputs.part({{7}, {7 + 45}});
    call.b = inputs.part({{52}, {52 + 55}});
    call.c = outputs.part({{3}, {102}});
    call.m = 9;
    call.k = 5;
    call.n = 11;
    bench.run(call);
    const std::vector<float> got = values_of<float>(outputs);
    for (size_t i = 0; i < got.size(); ++i) {
      if (i >= 3 && i < 102) continue;
      EXPECT_EQ(got[i], 7.5F) << text_of(host) << " element " << i;
    }
    EXPECT_EQ(got[3 + 11], [&] {
      float chain = 0.0F;
      for (size_t k = 0; k < 5; ++k) chain = std::fma(all[7 + 5 + k], all[52 + 11 * k], chain);
      return chain;
    }());
  }
}

TEST(Gemm, RefusesViewsOfAnotherSize) {
  Bench bench(hosts().front());
  Gemm call;
  call.a = bench.space(Type::f32, 6);
  call.b = bench.space(Type::f32, 6);
  call.c = bench.space(Type::f32, 5);
  call.m = 2;
  call.n = 2;
  call.k = 3;
  EXPECT_THROW(bench.run(call), Error);
}

}  // namespace
}  // namespace zp::kernels
