// The most fused multiply-adds of fp32 that a GPU does: chains in registers that wait for nothing else.
#pragma once

#include <cuda_runtime_api.h>

namespace zp::bench {

struct FmaLaunch {
  cudaStream_t stream = nullptr;
  int blocks = 1;
  int steps = 1;          // of every chain
  float* sink = nullptr;  // one element of the device's memory; nothing is ever written to it
};
// Puts one kernel on the stream; returns the floating-point operations that it does.
double launch_fma(const FmaLaunch& launch);

}  // namespace zp::bench
