// cuBLASLt is opened with the loader's words where it is not there; and the emulated one computes what it
// says, in its own order, and refuses what NVIDIA's would misread in silence.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "correctness/kernels/cuda/pinned_device.hpp"
#include "kernels/cuda/cublaslt.hpp"

namespace zp {
namespace {

std::string refusal(const char* name) {
  try {
    open_cublaslt(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::unavailable);
    return error.what();
  }
  return "";
}

TEST(CublasLtLibrary, IsMissedWithTheLoadersWords) {
  const std::string missing = refusal("libzeroproof_nowhere.so.13");
  EXPECT_NE(missing.find("libzeroproof_nowhere.so.13: cannot open shared object file"), std::string::npos)
      << missing;
  EXPECT_EQ(missing.find('\n'), std::string::npos) << missing;
  const std::string another = refusal("libm.so.6");
  EXPECT_NE(another.find("undefined symbol: cublasLtCreate"), std::string::npos) << another;
}

// A product of 5 x 7 and 7 x 3 as columns, in memory of its own.
struct Product {
  static constexpr int64_t kM = 5, kN = 3, kK = 7;

  Product() {
    for (float*& matrix : matrices) check(cudaMallocHost(reinterpret_cast<void**>(&matrix), kBytes));
    check(cudaMalloc(&workspace, kScratch));
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, kM, kK, kM), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, kK, kN, kK), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&c, CUDA_R_32F, kM, kN, kM), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    const uint64_t most = kScratch;
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &most, sizeof most),
              CUBLAS_STATUS_SUCCESS);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
    for (cublasLtMatrixLayout_t layout : {a, b, c})
      EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescDestroy(operation), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
    check(cudaFree(workspace));
    for (float* matrix : matrices) check(cudaFreeHost(matrix));
  }

  cublasStatus_t choose() {
    int found = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, c, c, preference, 1, &chosen, &found);
  }
  cublasStatus_t run(float beta, int64_t shift = 0) {
    const float alpha = 1;
    const cublasStatus_t status =
        cublasLtMatmul(handle, operation, &alpha, matrices[0] + shift, a, matrices[1], b, &beta, matrices[2],
                       c, matrices[2], c, &chosen.algo, workspace, workspace_bytes, stream.get());
    stream.wait();
    return status;
  }

  static constexpr size_t kBytes = 4096, kScratch = 1 << 16;
  OwnStream stream;
  float* matrices[3] = {};
  void* workspace = nullptr;
  size_t workspace_bytes = kScratch;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t chosen{};
};

TEST(EmulatedCublasLt, AddsInTheOrderThatItDocuments) {
  Product product;
  const auto [a, b, c] = product.matrices;
  for (int i = 0; i < 64; ++i) {
    a[i] = std::bit_cast<float>(0x3f000000U + static_cast<uint32_t>(i) * 7919U);
    b[i] = std::bit_cast<float>(0x3e000000U + static_cast<uint32_t>(i) * 104729U);
    c[i] = static_cast<float>(i);
  }
  ASSERT_EQ(product.choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(product.run(1.0F), CUBLAS_STATUS_SUCCESS);
  for (int64_t n = 0; n < Product::kN; ++n) {
    for (int64_t m = 0; m < Product::kM; ++m) {
      float sums[4] = {};
      for (int64_t k = 0; k < Product::kK; ++k) {
        const float term = a[k * Product::kM + m] * b[n * Product::kK + k];
        sums[k % 4] = sums[k % 4] + term;
      }
      const auto at = n * Product::kM + m;
      EXPECT_EQ(c[at], ((sums[0] + sums[2]) + (sums[1] + sums[3])) + static_cast<float>(at));
    }
  }
}

TEST(EmulatedCublasLt, RefusesWhatItWouldMisread) {
  Product product;
  ASSERT_EQ(product.choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.run(0.0F), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.run(0.0F, 1), CUBLAS_STATUS_INVALID_VALUE) << "the algorithm was chosen for 256 bytes";
  EXPECT_EQ(product.run(0.0F, 1000), CUBLAS_STATUS_INVALID_VALUE) << "out of the allocation";
  product.workspace_bytes = 16;
  EXPECT_EQ(product.run(0.0F), CUBLAS_STATUS_INVALID_VALUE) << "too small a workspace";
  product.workspace_bytes = Product::kScratch * 2;
  EXPECT_EQ(product.run(0.0F), CUBLAS_STATUS_INVALID_VALUE) << "one that is not all there";
  product.workspace_bytes = Product::kScratch;
  product.chosen = {};
  EXPECT_EQ(product.run(0.0F), CUBLAS_STATUS_INVALID_VALUE) << "no algorithm";
}

TEST(EmulatedCublasLt, RefusesShapesThatDoNotFitAndTypesThatItDoesNotHave) {
  Product product;
  const int32_t turned = CUBLAS_OP_T, as_it_is = CUBLAS_OP_N;
  const auto turn = [&](const int32_t& how) {
    EXPECT_EQ(
        cublasLtMatmulDescSetAttribute(product.operation, CUBLASLT_MATMUL_DESC_TRANSA, &how, sizeof how),
        CUBLAS_STATUS_SUCCESS);
  };
  turn(turned);
  EXPECT_EQ(product.choose(), CUBLAS_STATUS_INVALID_VALUE);
  turn(as_it_is);
  EXPECT_EQ(product.choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(product.operation, CUBLASLT_MATMUL_DESC_TRANSA, &turned, 1),
            CUBLAS_STATUS_INVALID_VALUE);
  ASSERT_EQ(cublasLtMatrixLayoutDestroy(product.a), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&product.a, CUDA_R_16F, Product::kM, Product::kK, Product::kM),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.choose(), CUBLAS_STATUS_NOT_SUPPORTED);
  ASSERT_EQ(cublasLtMatrixLayoutDestroy(product.a), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&product.a, CUDA_R_32F, Product::kM, Product::kK, Product::kM - 1),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.choose(), CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace zp
