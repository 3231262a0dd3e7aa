// What CUDA predefines in every kernel. Variables, not macros: cudaLaunchConfig_t has members of the same
// names.
#pragma once

#include <vector_types.h>

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
constexpr int warpSize = 32;

namespace zp {

// Dynamic shared memory: every kernel declares it as `extern __shared__ unsigned char dynamic_shared[]` in
// namespace zp (at namespace scope or in a function of zp itself), since the emulator must define it under
// one name.
extern constinit thread_local unsigned char dynamic_shared[];

}  // namespace zp
