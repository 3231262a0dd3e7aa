// cuBLASLt, opened by hand: neither its library nor its header need be there.
#include "bench/cuda/tensor_peak.hpp"

#if ZP_REAL_CUDA && ZP_CUBLASLT
#include <cublasLt.h>

#include "harness/base/shared_library.hpp"
#include "harness/device/cuda_check.hpp"
#include "kernels/cases.hpp"

namespace zp::bench {
namespace {

constexpr Elements kWorkspace{32 << 20};  // bytes, held as bf16: half of them would do

void must(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(Exit::cuda, std::string(call) + ": cuBLAS status " + std::to_string(static_cast<int>(status)));
}

template <class Function>
Function* named(const SharedLibrary& library, const char* name) {
  Function* function = nullptr;
  library.find(name, function);
  return function;
}
#define ZP_CALL(library, name, ...) must(named<decltype(name)>(library, #name)(__VA_ARGS__), #name)

// Everything that a product needs; kept until the process ends, as the library is.
class Product {
 public:
  Product(const SharedLibrary& library, Device& device, cudaStream_t stream, int64_t size)
      : memory_(device),
        stream_(stream),
        a_(memory_.numbers(Type::bf16, size * size)),
        b_(memory_.numbers(Type::bf16, size * size)),
        c_(memory_.space(Type::bf16, size * size)),
        workspace_(memory_.space(Type::bf16, kWorkspace.n)),
        matmul_(named<decltype(cublasLtMatmul)>(library, "cublasLtMatmul")) {
    ZP_CALL(library, cublasLtCreate, &handle_);
    ZP_CALL(library, cublasLtMatmulDescCreate, &product_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    ZP_CALL(library, cublasLtMatmulDescSetAttribute, product_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
            sizeof transposed);
    const auto n = static_cast<uint64_t>(size);
    ZP_CALL(library, cublasLtMatrixLayoutCreate, &square_, CUDA_R_16BF, n, n, size);
    cublasLtMatmulPreference_t preference = nullptr;
    ZP_CALL(library, cublasLtMatmulPreferenceCreate, &preference);
    const auto bytes = static_cast<size_t>(workspace_.bytes().n);
    ZP_CALL(library, cublasLtMatmulPreferenceSetAttribute, preference,
            CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    int found = 0;
    ZP_CALL(library, cublasLtMatmulAlgoGetHeuristic, handle_, product_, square_, square_, square_, square_,
            preference, 1, &chosen_, &found);
    if (found == 0) fail(Exit::unavailable, "cuBLASLt knows no algorithm for the product");
  }

  void run() const {
    const float one = 1.0F, zero = 0.0F;
    must(matmul_(handle_, product_, &one, a_.raw(), square_, b_.raw(), square_, &zero, c_.raw(), square_,
                 c_.raw(), square_, &chosen_.algo, workspace_.raw(),
                 static_cast<size_t>(workspace_.bytes().n), stream_),
         "cublasLtMatmul");
  }

 private:
  kernels::CaseMemory memory_;
  cudaStream_t stream_;
  View a_, b_, c_, workspace_;
  decltype(&cublasLtMatmul) matmul_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t square_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_{};
};

}  // namespace

TensorPeak make_tensor_peak(Device& device, cudaStream_t stream, int64_t size) {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  try {
    const auto product = std::make_shared<Product>(SharedLibrary(name, "cuBLASLt"), device, stream, size);
    return {.run = [product] { product->run(); },
            .why_not = {},
            .operations =
                2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size)};
  } catch (const Error& error) {
    return {.run = {}, .why_not = error.what(), .operations = 0};
  }
}

}  // namespace zp::bench
#else
namespace zp::bench {

TensorPeak make_tensor_peak(Device&, cudaStream_t, int64_t) {
  return {.run = {},
          .why_not = ZP_REAL_CUDA ? "built without cublasLt.h" : "an emulated device has no tensor cores",
          .operations = 0};
}

}  // namespace zp::bench
#endif
