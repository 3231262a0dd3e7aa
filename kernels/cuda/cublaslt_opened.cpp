// cuBLASLt opened by the system's loader.
#include <dlfcn.h>

#include <string>

#include "kernels/cuda/cublaslt.hpp"

namespace zp {
namespace {

// Of the header's major version: others may number things differently.
const std::string& library_name() {
  static const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  return name;
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fail(Exit::unavailable, std::string("--math vendor: ") + dlerror());
}

}  // namespace

// Stays open: what it computes with is needed until the process ends.
CublasLt open_cublaslt(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(Exit::unavailable, std::string("--math vendor: ") + dlerror());
  CublasLt found;
  find(library, "cublasLtCreate", found.create);
  find(library, "cublasLtDestroy", found.destroy);
  find(library, "cublasLtGetVersion", found.get_version);
  find(library, "cublasLtGetStatusName", found.get_status_name);
  find(library, "cublasLtMatmulDescCreate", found.desc_create);
  find(library, "cublasLtMatmulDescDestroy", found.desc_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", found.desc_set);
  find(library, "cublasLtMatrixLayoutCreate", found.layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", found.layout_destroy);
  find(library, "cublasLtMatmulPreferenceCreate", found.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", found.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", found.preference_set);
  find(library, "cublasLtMatmulAlgoGetHeuristic", found.get_heuristic);
  find(library, "cublasLtMatmulAlgoConfigGetAttribute", found.algo_get);
  find(library, "cublasLtMatmul", found.matmul);
  return found;
}

const CublasLt& cublaslt() {
  static const CublasLt library = open_cublaslt(library_name().c_str());
  return library;
}

}  // namespace zp
