// What CUDA predefines in every kernel. Variables, not macros: cudaLaunchConfig_t has members of the same
// names.
#pragma once

#include <vector_types.h>

#define ZP_EMULATED_INDEX extern constinit thread_local __attribute__((tls_model("initial-exec")))

ZP_EMULATED_INDEX uint3 threadIdx;
ZP_EMULATED_INDEX uint3 blockIdx;
ZP_EMULATED_INDEX dim3 blockDim;
ZP_EMULATED_INDEX dim3 gridDim;
constexpr int warpSize = 32;

#undef ZP_EMULATED_INDEX

namespace zp {

// Dynamic shared memory: every kernel declares it as `extern __shared__ unsigned char dynamic_shared[]` in
// namespace zp (at namespace scope or in a function of zp itself), since the emulator must define it under
// one name.
extern constinit thread_local unsigned char dynamic_shared[];

}  // namespace zp
