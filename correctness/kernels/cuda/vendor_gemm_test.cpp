// Products by the vendor are as near to the exact ones as fp32 sums in any order are, in every layout; and
// the check refutes one that is wrong in any way a product can be. Links the emulated runtime, or NVIDIA's
// where there is a GPU.
//
// [Note: how far a sum of any order may be off] Operands are fp32 or bf16 as they lie, so products are exact
// in fp64. s is a sum of k of them. Whatever the order, and whether additions round to nearest or cut off, as
// tensor cores do, every product and every addition moves s by at most u = 2⁻²³ of the largest number that
// takes part, which is at most S = Σ|a·b|: together by 2k·u·S, and the last addition of C by u·(S + |C|).
// Numbers below the least normal one may be lost as well: (2k + 1)·2⁻¹²⁶.
#include <gtest/gtest.h>

#include <cmath>

#include "correctness/kernels/cuda/pinned_device.hpp"
#include "correctness/kernels/hosts.hpp"
#include "kernels/cuda/cublaslt.hpp"
#include "kernels/cuda/cuda_table.hpp"
#include "kernels/cuda/vendor_table.hpp"

namespace zp::kernels {
namespace {

constexpr int64_t kRoom = 20'000;  // elements of each operand, more than any product here has
constexpr int64_t kSlack = 1'000;  // behind a matrix, for one that reaches too far

struct VendorShape {
  int64_t m, n, k;
};

struct VendorLayout {
  Transpose a_stored = Transpose::no, b_stored = Transpose::no;
  Type b_type = Type::f32;
  Write write = Write::overwrite;
};

// Operands and C as the host put them, and C as the vendor left it.
struct Numbers {
  std::vector<float> a, b, c, got;
};

class Vendor {
 public:
  explicit Vendor(Type operands, const CublasLt& library = cublaslt(), int64_t alignment = 1)
      : table_(make_vendor_table(make_cuda_table(memory_, {.stream = stream_.get()}), memory_,
                                 {.stream = stream_.get(),
                                  .operands = operands,
                                  .largest_a = kRoom,
                                  .largest_b = kRoom,
                                  .alignment = alignment},
                                 library)) {}

  template <class T>
  View put(const std::vector<T>& values, int64_t shift = 0) {
    const auto length = static_cast<int64_t>(values.size());
    buffers_.push_back(memory_.acquire(Category::activations, type_of<T>, {length + shift + kSlack}));
    const View view = buffers_.back().part({{shift}, {length + shift}});
    std::copy(values.begin(), values.end(), view.write<T>());
    return view;
  }
  void run(const Gemm& call) {
    table_->run(call);
    stream_.wait();
  }
  const VendorTable& table() const { return *table_; }

 private:
  PinnedDevice memory_;
  OwnStream stream_;
  std::vector<Buffer> buffers_;
  std::unique_ptr<VendorTable> table_;
};

Numbers numbers_of(const VendorShape& s, const VendorLayout& layout) {
  Numbers numbers{.a = data(s.m * s.k, 1), .b = data(s.k * s.n, 2), .c = data(s.m * s.n, 3), .got = {}};
  if (layout.b_type == Type::bf16) {
    for (float& x : numbers.b) x = widen(round_to_bf16(x));
  }
  return numbers;
}

// `told` is what the vendor is asked for; C is filled beforehand, whether it is to be read or not.
void multiply(Vendor& vendor, const VendorShape& s, const VendorLayout& told, Numbers& numbers,
              int64_t shift = 0) {
  const View c = vendor.put(numbers.c, shift);
  vendor.run(
      {.a = vendor.put(numbers.a, shift),
       .b = told.b_type == Type::bf16 ? vendor.put(rounded(numbers.b), shift) : vendor.put(numbers.b, shift),
       .c = c,
       .a_stored = told.a_stored,
       .b_stored = told.b_stored,
       .m = s.m,
       .n = s.n,
       .k = s.k,
       .write = told.write});
  numbers.got = values_of<float>(c);
}

// As an operand of that type.
double taken(float x, Type operands) {
  return static_cast<double>(operands == Type::bf16 ? widen(round_to_bf16(x)) : x);
}

// Note: how far a sum of any order may be off.
testing::AssertionResult within_bounds(const VendorShape& s, const VendorLayout& layout, Type operands,
                                       const Numbers& numbers) {
  constexpr double kUnit = 0x1p-23, kLeastNormal = 0x1p-126;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double exact = 0, size = 0;
      for (int64_t l = 0; l < s.k; ++l) {
        const int64_t at_a = layout.a_stored == Transpose::no ? i * s.k + l : l * s.m + i;
        const int64_t at_b = layout.b_stored == Transpose::no ? l * s.n + j : j * s.k + l;
        const double product = taken(numbers.a[static_cast<size_t>(at_a)], operands) *
                               taken(numbers.b[static_cast<size_t>(at_b)], operands);
        exact += product;
        size += std::abs(product);
      }
      const auto at = static_cast<size_t>(i * s.n + j);
      const double before = layout.write == Write::accumulate ? static_cast<double>(numbers.c[at]) : 0.0;
      const auto k = static_cast<double>(s.k);
      const double bound =
          2 * k * kUnit * size + kUnit * (size + std::abs(before)) + (2 * k + 1) * kLeastNormal;
      const double off = std::abs(static_cast<double>(numbers.got[at]) - (exact + before));
      if (off <= bound) continue;
      return testing::AssertionFailure() << "row " << i << ", column " << j << ": " << numbers.got[at]
                                         << " is off by " << off << ", at most " << bound << " is explained";
    }
  }
  return testing::AssertionSuccess();
}

std::vector<VendorLayout> vendor_layouts(Type operands) {
  std::vector<VendorLayout> all;
  for (const Transpose a : {Transpose::no, Transpose::yes}) {
    for (const Transpose b : {Transpose::no, Transpose::yes}) {
      for (const Write write : {Write::overwrite, Write::accumulate}) {
        all.push_back({a, b, Type::f32, write});
        if (operands == Type::bf16) all.push_back({a, b, Type::bf16, write});
      }
    }
  }
  return all;
}

std::string text_of(const VendorShape& s, const VendorLayout& layout) {
  return std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k) +
         (layout.a_stored == Transpose::no ? " N" : " T") + (layout.b_stored == Transpose::no ? "N" : "T") +
         (layout.write == Write::accumulate ? " accumulate" : "");
}

class VendorGemm : public testing::TestWithParam<Type> {};

INSTANTIATE_TEST_SUITE_P(Of, VendorGemm, testing::Values(Type::bf16, Type::f32),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(VendorGemm, IsWithinTheBoundInEveryLayout) {
  for (const VendorShape& s :
       {VendorShape{64, 48, 32}, VendorShape{37, 29, 70}, VendorShape{1, 5, 3}, VendorShape{8, 8, 513}}) {
    for (const VendorLayout& layout : vendor_layouts(GetParam())) {
      for (const int64_t shift : {0, 1}) {
        Vendor vendor(GetParam());
        Numbers numbers = numbers_of(s, layout);
        multiply(vendor, s, layout, numbers, shift);
        EXPECT_TRUE(within_bounds(s, layout, GetParam(), numbers)) << text_of(s, layout);
      }
    }
  }
}

TEST_P(VendorGemm, OfNothingIsNothing) {
  for (const VendorLayout& layout : vendor_layouts(GetParam())) {
    Vendor vendor(GetParam());
    Numbers numbers = numbers_of({2, 3, 0}, layout);
    multiply(vendor, {2, 3, 0}, layout, numbers);
    EXPECT_TRUE(within_bounds({2, 3, 0}, layout, GetParam(), numbers));
  }
}

TEST_P(VendorGemm, NamesTheAlgorithmOfEveryShapeAndChoosesItAgain) {
  Vendor one(GetParam()), other(GetParam());
  for (const VendorShape& s : {VendorShape{64, 48, 32}, VendorShape{8, 80, 16}, VendorShape{64, 48, 32}}) {
    for (Vendor* vendor : {&one, &other}) {
      Numbers numbers = numbers_of(s, {});
      multiply(*vendor, s, {}, numbers);
    }
  }
  ASSERT_EQ(one.table().choices().size(), 2U) << "a shape is chosen for once";
  EXPECT_NE(one.table().choices().back().find("64 x 48 x 32 NN " + std::string(name_of(GetParam())) +
                                              ": algorithm "),
            std::string::npos)
      << one.table().choices().back();
  EXPECT_EQ(one.table().choices(), other.table().choices());
}

TEST_P(VendorGemm, RefusesAMatrixThatBeginsElsewhereThanItWasSaidTo) {
  Vendor vendor(GetParam(), cublaslt(), 8);
  Numbers numbers = numbers_of({8, 8, 8}, {});
  multiply(vendor, {8, 8, 8}, {}, numbers, 8);
  EXPECT_THROW(multiply(vendor, {8, 8, 8}, {}, numbers, 1), Error);
}

// ---- The check refutes what is wrong

constexpr VendorShape kSquareShape{40, 40, 40};

TEST_P(VendorGemm, IsRefutedWithAWrongTransposition) {
  for (const VendorLayout& right : vendor_layouts(GetParam())) {
    for (const bool of_a : {true, false}) {
      VendorLayout told = right;
      Transpose& stored = of_a ? told.a_stored : told.b_stored;
      stored = stored == Transpose::no ? Transpose::yes : Transpose::no;
      Vendor vendor(GetParam());
      Numbers numbers = numbers_of(kSquareShape, right);
      multiply(vendor, kSquareShape, told, numbers);
      EXPECT_FALSE(within_bounds(kSquareShape, right, GetParam(), numbers)) << text_of(kSquareShape, right);
    }
  }
}

TEST_P(VendorGemm, IsRefutedWhereItOverwritesInsteadOfAccumulatingOrTheReverse) {
  for (const VendorLayout& right : vendor_layouts(GetParam())) {
    VendorLayout told = right;
    told.write = right.write == Write::accumulate ? Write::overwrite : Write::accumulate;
    Vendor vendor(GetParam());
    Numbers numbers = numbers_of(kSquareShape, right);
    multiply(vendor, kSquareShape, told, numbers);
    EXPECT_FALSE(within_bounds(kSquareShape, right, GetParam(), numbers)) << text_of(kSquareShape, right);
  }
}

TEST_P(VendorGemm, IsRefutedWithOperandsOfTheOtherType) {
  const Type other = GetParam() == Type::bf16 ? Type::f32 : Type::bf16;
  Vendor vendor(other);
  Numbers numbers = numbers_of(kSquareShape, {});
  multiply(vendor, kSquareShape, {}, numbers);
  EXPECT_TRUE(within_bounds(kSquareShape, {}, other, numbers));
  EXPECT_FALSE(within_bounds(kSquareShape, {}, GetParam(), numbers));
}

// A library that is told a leading dimension one too large: of the layout that is made `wrong`th.
int made = 0, wrong = 0;
cublasStatus_t misled_layout(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                             uint64_t columns, int64_t leading) {
  return cublaslt().layout_create(layout, type, rows, columns, leading + (made++ == wrong ? 1 : 0));
}

TEST_P(VendorGemm, IsRefutedWithAWrongLeadingDimension) {
  CublasLt misled = cublaslt();
  misled.layout_create = misled_layout;
  for (wrong = 0; wrong < 3; ++wrong) {  // of A, B and C
    made = 0;
    Vendor vendor(GetParam(), misled);
    Numbers numbers = numbers_of(kSquareShape, {});
    multiply(vendor, kSquareShape, {}, numbers);
    EXPECT_EQ(made, 3);
    EXPECT_FALSE(within_bounds(kSquareShape, {}, GetParam(), numbers)) << wrong;
  }
}

// One that forgets what is to be added.
cublasStatus_t forgetful_matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                                const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                                cublasLtMatrixLayout_t b_layout, const void*, const void* c,
                                cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                                const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                                cudaStream_t stream) {
  const float beta = 0.0F;
  return cublaslt().matmul(handle, operation, alpha, a, a_layout, b, b_layout, &beta, c, c_layout, d,
                           d_layout, algorithm, workspace, bytes, stream);
}

TEST_P(VendorGemm, IsRefutedWithoutBeta) {
  CublasLt forgetful = cublaslt();
  forgetful.matmul = forgetful_matmul;
  Vendor vendor(GetParam(), forgetful);
  const VendorLayout accumulate{.write = Write::accumulate};
  Numbers numbers = numbers_of(kSquareShape, accumulate);
  multiply(vendor, kSquareShape, accumulate, numbers);
  EXPECT_FALSE(within_bounds(kSquareShape, accumulate, GetParam(), numbers));
}

}  // namespace
}  // namespace zp::kernels
