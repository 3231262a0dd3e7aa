// cuBLASLt opened by the system's loader.
#include <string>

#include "harness/base/shared_library.hpp"
#include "kernels/cuda/cublaslt.hpp"

namespace zp {
namespace {

// Of the header's major version: others may number things differently.
const std::string& library_name() {
  static const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  return name;
}

}  // namespace

CublasLt open_cublaslt(const char* name) {
  const SharedLibrary library(name, "--math vendor");
  CublasLt found;
  library.find("cublasLtCreate", found.create);
  library.find("cublasLtDestroy", found.destroy);
  library.find("cublasLtGetVersion", found.get_version);
  library.find("cublasLtGetStatusName", found.get_status_name);
  library.find("cublasLtMatmulDescCreate", found.desc_create);
  library.find("cublasLtMatmulDescDestroy", found.desc_destroy);
  library.find("cublasLtMatmulDescSetAttribute", found.desc_set);
  library.find("cublasLtMatrixLayoutCreate", found.layout_create);
  library.find("cublasLtMatrixLayoutDestroy", found.layout_destroy);
  library.find("cublasLtMatmulPreferenceCreate", found.preference_create);
  library.find("cublasLtMatmulPreferenceDestroy", found.preference_destroy);
  library.find("cublasLtMatmulPreferenceSetAttribute", found.preference_set);
  library.find("cublasLtMatmulAlgoGetHeuristic", found.get_heuristic);
  library.find("cublasLtMatmulAlgoConfigGetAttribute", found.algo_get);
  library.find("cublasLtMatmul", found.matmul);
  return found;
}

const CublasLt& cublaslt() {
  static const CublasLt library = open_cublaslt(library_name().c_str());
  return library;
}

}  // namespace zp
