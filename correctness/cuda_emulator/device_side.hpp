// Makes a .cu file C++ for g++ and clang: `g++ -x c++ -include device_side.hpp`. nvcc never reads this.
// Kernels are launched with cudaLaunchKernelEx alone, and what is not found here does not compile: float
// atomics and approximate functions are left out on purpose, inline PTX and cooperative groups are not
// emulated, __CUDA_ARCH__ is not defined.
#pragma once

// Within a function this is static; one block at a time runs on the thread of a stream. NVIDIA's header keeps
// it.
#define __shared__ thread_local
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#undef __launch_bounds__
#define __launch_bounds__(...)

// In place of NVIDIA's headers for asynchronous copies, which are PTX.
#define _CUDA_PIPELINE_H_
#define _CUDA_PIPELINE_PRIMITIVES_H_
#define _CUDA_PIPELINE_HELPERS_H_

#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "correctness/cuda_emulator/device_numbers.hpp"
#include "correctness/cuda_emulator/indices.hpp"
#include "correctness/cuda_emulator/kernel.hpp"

namespace zp::emulated {

template <class... Parameters>
class KernelOf final : public KernelCall {
 public:
  template <class... Arguments>
  explicit KernelOf(void (*kernel)(Parameters...), Arguments&&... arguments)
      : kernel_(kernel), arguments_(std::forward<Arguments>(arguments)...) {}
  void run_thread() const override { std::apply(kernel_, arguments_); }

 private:
  void (*kernel_)(Parameters...);
  std::tuple<Parameters...> arguments_;
};

// As NVIDIA's template, which hands on untyped pointers; arguments are copied now, as CUDA does.
template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(const char* text, const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                          Arguments&&... arguments) {
  auto* const call = new KernelOf<Parameters...>(kernel, std::forward<Arguments>(arguments)...);
  return launch(config, text, reinterpret_cast<const void*>(kernel), call);
}

template <class T>
T from_lane(std::uint32_t mask, T value, unsigned source_lane, Site site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange_warp(mask, bits, source_lane, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Lanes exchange within groups of `width`: the first and the last lane of one's own group.
inline unsigned first_of_group(int width) { return lane() & ~(static_cast<unsigned>(width) - 1U); }
inline unsigned last_of_group(int width) { return first_of_group(width) + static_cast<unsigned>(width) - 1U; }

}  // namespace zp::emulated

#define cudaLaunchKernelEx(...) zp::emulated::launch_kernel(#__VA_ARGS__, __VA_ARGS__)

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

// ---- Barriers and votes

inline void __syncthreads(zp::emulated::Site site = {}) { zp::emulated::meet_block(site, false); }
inline int __syncthreads_count(int predicate, zp::emulated::Site site = {}) {
  return zp::emulated::meet_block(site, predicate != 0);
}
inline int __syncthreads_or(int predicate, zp::emulated::Site site = {}) {
  return zp::emulated::meet_block(site, predicate != 0) != 0 ? 1 : 0;
}
inline int __syncthreads_and(int predicate, zp::emulated::Site site = {}) {
  return zp::emulated::meet_block(site, predicate == 0) == 0 ? 1 : 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffU, zp::emulated::Site site = {}) {
  zp::emulated::meet_warp(mask, site);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, zp::emulated::Site site = {}) {
  return zp::emulated::vote_warp(mask, predicate != 0, site);
}
inline int __any_sync(unsigned mask, int predicate, zp::emulated::Site site = {}) {
  return zp::emulated::vote_warp(mask, predicate != 0, site) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, zp::emulated::Site site = {}) {
  return zp::emulated::vote_warp(mask, predicate == 0, site) == 0 ? 1 : 0;
}

// ---- Warp shuffles, by the rules of PTX's shfl: a source outside one's group leaves one's own value

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, zp::emulated::Site site = {}) {
  const unsigned within = static_cast<unsigned>(source) & (static_cast<unsigned>(width) - 1U);
  return zp::emulated::from_lane(mask, value, zp::emulated::first_of_group(width) + within, site);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize, zp::emulated::Site site = {}) {
  const unsigned source = zp::emulated::lane() ^ static_cast<unsigned>(bits);
  const bool reachable = source <= zp::emulated::last_of_group(width);
  return zp::emulated::from_lane(mask, value, reachable ? source : zp::emulated::lane(), site);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned down, int width = warpSize,
                   zp::emulated::Site site = {}) {
  const unsigned source = zp::emulated::lane() + down;
  const bool reachable = source <= zp::emulated::last_of_group(width);
  return zp::emulated::from_lane(mask, value, reachable ? source : zp::emulated::lane(), site);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned up, int width = warpSize, zp::emulated::Site site = {}) {
  const bool reachable = zp::emulated::lane() >= zp::emulated::first_of_group(width) + up;
  const unsigned source = reachable ? zp::emulated::lane() - up : zp::emulated::lane();
  return zp::emulated::from_lane(mask, value, source, site);
}

// ---- Memory

inline void __threadfence() { zp::emulated::fence(); }
inline void __threadfence_block() { zp::emulated::fence(); }
inline void __threadfence_system() { zp::emulated::fence(); }
[[noreturn]] inline void __trap(zp::emulated::Site site = {}) { zp::emulated::trap(site); }

// Between issue and wait the destination may hold anything: it holds NaN, and is written when it is waited
// for.
inline void __pipeline_memcpy_async(void* shared, const void* global, std::size_t bytes,
                                    std::size_t zero_bytes = 0, zp::emulated::Site site = {}) {
  const bool sized = bytes == 4 || bytes == 8 || bytes == 16;
  const auto misaligned =
      (reinterpret_cast<std::uintptr_t>(shared) | reinterpret_cast<std::uintptr_t>(global)) % bytes;
  if (!sized || zero_bytes > bytes || misaligned != 0) zp::emulated::trap(site);
  std::memset(shared, 0xff, bytes);
  zp::emulated::copy_later(shared, global, bytes - zero_bytes, zero_bytes);
}
inline void __pipeline_commit() { zp::emulated::commit_copies(); }
inline void __pipeline_wait_prior(std::size_t groups_left, zp::emulated::Site site = {}) {
  zp::emulated::wait_copies(groups_left, site);
}
