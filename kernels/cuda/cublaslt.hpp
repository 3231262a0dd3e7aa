// NVIDIA's cuBLASLt as the functions that are called here. It is opened when it is asked for: nothing links
// it.
#pragma once

#include <cublasLt.h>

#include <memory>

#include "harness/base/check.hpp"
#include "kernels/cuda/vendor_table.hpp"

namespace zp {

struct CublasLt {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) get_version = nullptr;
  decltype(&cublasLtGetStatusName) get_status_name = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_get = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
};

// The library of that file name, as the system's loader finds it. Throws (unavailable) with the loader's
// words.
CublasLt open_cublaslt(const char* name);

// The one that this program computes with, which lives as long as the process: NVIDIA's, or where CUDA is
// emulated, the emulated one. Throws as open_cublaslt() does.
const CublasLt& cublaslt();

// Throws Error(cuda) with the library's own words.
void check(const CublasLt& library, cublasStatus_t status, const char* call, Where where = {});

namespace kernels {

// kernels/cuda/vendor_table.hpp, with a library that is not cublaslt(), and outlives the table.
std::unique_ptr<VendorTable> make_vendor_table(std::unique_ptr<Table> own, Device& device,
                                               const VendorOptions& options, const CublasLt& library);

}  // namespace kernels
}  // namespace zp
