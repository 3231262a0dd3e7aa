// Failed CUDA calls become an Error in one place. For files that may see CUDA's headers.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "harness/base/check.hpp"

namespace zp {

// Throws Error(cuda) with CUDA's own words.
inline void check(cudaError_t status, Where where = {}) {
  if (status == cudaSuccess) return;
  fail(Exit::cuda, std::string("CUDA: ") + cudaGetErrorName(status) + ": " + cudaGetErrorString(status) +
                       " (" + where.file + ":" + std::to_string(where.line) + ")");
}

}  // namespace zp
