// Peaks of fused multiply-adds and of copies.
#include "bench/peaks.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>

namespace zp::bench {
namespace {

// Independent chains: as many as hide the latency of two units.
constexpr int kChains = 12;
constexpr int64_t kSteps = 1 << 14;

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void chains_avx2() {
  using Lanes = float __attribute__((vector_size(32)));
  Lanes chains[kChains] = {};
  const Lanes a = {}, b = {};
  for (int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (Lanes& chain : chains) asm volatile("vfmadd231ps %1, %2, %0" : "+x"(chain) : "x"(a), "x"(b));
  }
}

__attribute__((target("avx512f"))) void chains_avx512() {
  using Lanes = float __attribute__((vector_size(64)));
  Lanes chains[kChains] = {};
  const Lanes a = {}, b = {};
  for (int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (Lanes& chain : chains) asm volatile("vfmadd231ps %1, %2, %0" : "+v"(chain) : "v"(a), "v"(b));
  }
}
#endif

FmaPeak peak_of(int lanes, std::function<void()> run) {
  return {.lanes = lanes,
          .operations = 2.0 * static_cast<double>(kSteps * kChains * lanes),
          .run = std::move(run)};
}

}  // namespace

FmaPeak fma_peak_avx2() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return peak_of(8, chains_avx2);
#endif
  return peak_of(8, {});
}

FmaPeak fma_peak_avx512() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return peak_of(16, chains_avx512);
#endif
  return peak_of(16, {});
}

Copy::Copy(double bytes) : half_(static_cast<size_t>(bytes / 2.0)), from_(half_, 1), to_(half_, 2) {}

void Copy::operator()() {
  std::memcpy(to_.data(), from_.data(), half_);
  benchmark::DoNotOptimize(to_.data());
  benchmark::ClobberMemory();
}

}  // namespace zp::bench
