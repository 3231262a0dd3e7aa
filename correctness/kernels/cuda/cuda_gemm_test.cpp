// The CUDA matrix product has the host's bits: every layout, type and edge, both sizes of its tiles, chains
// that are cut, and operands that no vector access may touch.
#include "correctness/kernels/cuda/both_tables.hpp"

namespace zp::kernels {
namespace {

struct GemmShape {
  int64_t m, n, k;
};

void PrintTo(const GemmShape& s, std::ostream* out) { *out << s.m << " x " << s.n << " x " << s.k; }

struct GemmLayout {
  Transpose a_stored, b_stored;
  Type b_type;
  Write write;
  int64_t shift;  // elements before each operand
};

std::string text_of(const GemmShape& shape, const GemmLayout& layout) {
  return std::to_string(shape.m) + " x " + std::to_string(shape.n) + " x " + std::to_string(shape.k) +
         (layout.a_stored == Transpose::yes ? " T" : " N") +
         (layout.b_stored == Transpose::yes ? "T " : "N ") + std::string(name_of(layout.b_type)) +
         (layout.write == Write::accumulate ? " accumulate" : "") + " shift " + std::to_string(layout.shift);
}

std::vector<GemmLayout> layouts(std::initializer_list<int64_t> shifts) {
  std::vector<GemmLayout> all;
  for (const Transpose a : {Transpose::no, Transpose::yes}) {
    for (const Transpose b : {Transpose::no, Transpose::yes}) {
      for (const Type type : {Type::f32, Type::bf16}) {
        for (const Write write : {Write::overwrite, Write::accumulate}) {
          for (const int64_t shift : shifts) all.push_back({a, b, type, write, shift});
        }
      }
    }
  }
  return all;
}

testing::AssertionResult agree(const GemmShape& s, const GemmLayout& layout) {
  BothTables tables;
  const Twin a = tables.put(data(s.m * s.k, 1), layout.shift);
  const std::vector<float> numbers = data(s.k * s.n, 2);
  const Twin b = layout.b_type == Type::bf16 ? tables.put(rounded(numbers), layout.shift)
                                             : tables.put(numbers, layout.shift);
  const Twin c = layout.write == Write::accumulate ? tables.put(data(s.m * s.n, 3), layout.shift)
                                                   : tables.space(Type::f32, s.m * s.n, layout.shift);
  tables.run([&](Side side) {
    return Gemm{.a = a.of(side),
                .b = b.of(side),
                .c = c.of(side),
                .a_stored = layout.a_stored,
                .b_stored = layout.b_stored,
                .m = s.m,
                .n = s.n,
                .k = s.k,
                .write = layout.write};
  });
  return same_bits<float>(c);
}

class CudaGemm : public testing::TestWithParam<GemmShape> {};

TEST_P(CudaGemm, HasTheHostsBitsInEveryLayout) {
  for (const GemmLayout& layout : layouts({0, 1}))
    EXPECT_TRUE(agree(GetParam(), layout)) << text_of(GetParam(), layout);
}

std::string name_of_shape(const testing::TestParamInfo<GemmShape>& info) {
  const auto& [m, n, k] = info.param;
  return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
}

INSTANTIATE_TEST_SUITE_P(Edges, CudaGemm,
                         testing::Values(GemmShape{1, 1, 1}, GemmShape{64, 64, 16}, GemmShape{64, 128, 32},
                                         GemmShape{65, 63, 17}, GemmShape{3, 130, 511}, GemmShape{72, 8, 512},
                                         GemmShape{9, 4, 513}, GemmShape{66, 70, 1100},
                                         GemmShape{40, 24, 1024}, GemmShape{2, 3, 0}, GemmShape{0, 3, 2},
                                         GemmShape{128, 56, 40}),
                         name_of_shape);

// So many tiles that large ones are taken.
TEST(CudaGemmOfLargeTiles, HasTheHostsBits) {
  constexpr auto kNo = Transpose::no, kYes = Transpose::yes;
  for (const auto& [shape, layout] : {
           std::pair(GemmShape{33671, 101, 19}, GemmLayout{kNo, kYes, Type::f32, Write::overwrite, 0}),
           std::pair(GemmShape{33672, 104, 16}, GemmLayout{kNo, kNo, Type::bf16, Write::accumulate, 0}),
           std::pair(GemmShape{33672, 104, 17}, GemmLayout{kYes, kNo, Type::f32, Write::accumulate, 0}),
           std::pair(GemmShape{33669, 97, 24}, GemmLayout{kNo, kYes, Type::bf16, Write::overwrite, 0}),
       }) {
    EXPECT_TRUE(agree(shape, layout)) << text_of(shape, layout);
  }
}

}  // namespace
}  // namespace zp::kernels
