// Independent chains of fma in every thread: as many as hide an instruction's latency.
#include "bench/cuda/fma_peak.hpp"
#include "harness/device/cuda_check.hpp"

namespace zp::bench {
namespace {

constexpr int kThreads = 256, kChains = 8;

__global__ void __launch_bounds__(kThreads) chains_of_fma(float a, float b, int steps, float* sink) {
  float chains[kChains];
  for (int j = 0; j < kChains; ++j) chains[j] = static_cast<float>(j + 1);
#pragma unroll 16
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int j = 0; j < kChains; ++j) chains[j] = fmaf(chains[j], a, b);
  }
  float sum = 0.0F;
  for (int j = 0; j < kChains; ++j) sum += chains[j];
  // Never: with a and b from 0 to 1 no chain falls below zero. The compiler knows neither.
  if (sum < 0.0F) *sink = sum;
}

}  // namespace

double launch_fma(const FmaLaunch& launch) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(launch.blocks), 1, 1);
  config.blockDim = dim3(kThreads, 1, 1);
  config.stream = launch.stream;
  check(cudaLaunchKernelEx(&config, chains_of_fma, 0.5F, 0.25F, launch.steps, launch.sink));
  return 2.0 * kThreads * kChains * launch.blocks * launch.steps;
}

}  // namespace zp::bench
