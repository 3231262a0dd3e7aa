// Where CUDA is emulated, cuBLASLt is too, and linked.
#include "kernels/cuda/cublaslt.hpp"

namespace zp {

const CublasLt& cublaslt() {
  static const CublasLt library{
      .create = cublasLtCreate,
      .destroy = cublasLtDestroy,
      .get_version = cublasLtGetVersion,
      .get_status_name = cublasLtGetStatusName,
      .desc_create = cublasLtMatmulDescCreate,
      .desc_destroy = cublasLtMatmulDescDestroy,
      .desc_set = cublasLtMatmulDescSetAttribute,
      .layout_create = cublasLtMatrixLayoutCreate,
      .layout_destroy = cublasLtMatrixLayoutDestroy,
      .preference_create = cublasLtMatmulPreferenceCreate,
      .preference_destroy = cublasLtMatmulPreferenceDestroy,
      .preference_set = cublasLtMatmulPreferenceSetAttribute,
      .get_heuristic = cublasLtMatmulAlgoGetHeuristic,
      .algo_get = cublasLtMatmulAlgoConfigGetAttribute,
      .matmul = cublasLtMatmul,
  };
  return library;
}

}  // namespace zp
