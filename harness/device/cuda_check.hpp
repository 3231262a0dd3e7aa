// Failed CUDA calls become an Error in one place. For files that may see CUDA's headers.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "harness/base/check.hpp"

namespace zp {

// Some calls fail for want of what they need: memory, a GPU that no other process holds for itself, kernels
// that are compiled for it.
inline Exit exit_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice: return Exit::unavailable;
    default: return Exit::cuda;
  }
}

// Throws an Error with CUDA's own words: (unavailable) for what is not there, (cuda) for calls that fail.
inline void check(cudaError_t status, Where where = {}) {
  if (status == cudaSuccess) return;
  fail(exit_of(status), std::string("CUDA: ") + cudaGetErrorName(status) + ": " + cudaGetErrorString(status) +
                            " (" + where.file + ":" + std::to_string(where.line) + ")");
}

}  // namespace zp
