// The kernels of lab.hpp, as nvcc would compile them.
#include "correctness/cuda_emulator/lab.hpp"

#include <cuda_bf16.h>
#include <cuda_pipeline.h>

namespace zp {

extern __shared__ unsigned char dynamic_shared[];

}  // namespace zp

namespace zp::lab {

namespace {

constexpr int kThreads = 256;
constexpr unsigned kAll = 0xffffffffU;

cudaLaunchConfig_t shape(long blocks, dim3 threads, cudaStream_t stream, size_t shared = 0) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  return config;
}

long blocks_for(long length) { return length / (4 * kThreads) + 1; }

__global__ void __launch_bounds__(kThreads) fill_kernel(float* to, float value, long length) {
  const long stride = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < length; i += stride)
    to[i] = value;
}

__global__ void add_scaled_kernel(float* __restrict__ to, const float* __restrict__ from, float factor,
                                  long length) {
  const long stride = static_cast<long>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < length; i += stride) {
    to[i] = fmaf(factor, __ldg(from + i), to[i]);
  }
}

__global__ void where_kernel(std::uint32_t* to) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  to[at] = 100000 * blockIdx.x + 10000 * blockIdx.y + 1000 * blockIdx.z + 100 * threadIdx.x +
           10 * threadIdx.y + threadIdx.z;
}

__device__ float warp_sum(float value) {
  for (int bits = 16; bits > 0; bits >>= 1) value += __shfl_xor_sync(kAll, value, bits);
  return value;
}

template <bool kGuarded>
__global__ void block_sums_kernel(const float* from, float* sums, long length) {
  __shared__ float parts[32];
  const long stride = static_cast<long>(gridDim.x) * blockDim.x;
  float sum = 0;
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < length; i += stride)
    sum += from[i];
  sum = warp_sum(sum);
  if (threadIdx.x % warpSize == 0) parts[threadIdx.x / warpSize] = sum;
  if (kGuarded) __syncthreads();
  if (threadIdx.x >= warpSize) return;
  sum = warp_sum(threadIdx.x < blockDim.x / warpSize ? parts[threadIdx.x] : 0.0F);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

constexpr int kTile = 16;

template <bool kGuarded>
__global__ void multiply_kernel(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kTile][kTile], b_tile[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
  float sum = 0;
  for (int k0 = 0; k0 < n; k0 += kTile) {
    a_tile[y][x] = row < n && k0 + x < n ? a[row * n + k0 + x] : 0.0F;
    b_tile[y][x] = column < n && k0 + y < n ? b[(k0 + y) * n + column] : 0.0F;
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum = fmaf(a_tile[y][k], b_tile[k][x], sum);
    if (kGuarded) __syncthreads();
  }
  if (row < n && column < n) c[row * n + column] = sum;
}

__global__ void reverse_kernel(const float* from, float* to, int behind) {
  float* const tile = reinterpret_cast<float*>(dynamic_shared);
  const unsigned base = blockIdx.x * blockDim.x;
  tile[threadIdx.x] = from[base + threadIdx.x];
  if (threadIdx.x < static_cast<unsigned>(behind)) tile[blockDim.x + threadIdx.x] = 0;
  __syncthreads();
  to[base + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

// Four numbers a thread and group: the group after the next one is on its way while one is used.
__global__ void copy_piecewise_kernel(const float* from, float* to, long length, Waits waits) {
  __shared__ __align__(16) float tiles[2][4 * kThreads];
  const long groups = length / (4 * kThreads);
  const int mine = 4 * threadIdx.x;
  for (long group = 0; group <= groups; ++group) {
    if (group < groups) {
      __pipeline_memcpy_async(&tiles[group % 2][mine], from + group * 4 * kThreads + mine, 16);
      __pipeline_commit();
    }
    if (group == 0) continue;
    if (waits == Waits::right) __pipeline_wait_prior(group < groups ? 1 : 0);
    if (waits == Waits::too_few) __pipeline_wait_prior(2);
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
      const int other = (mine + 4 + i) % (4 * kThreads);
      to[(group - 1) * 4 * kThreads + other] = tiles[(group - 1) % 2][other];
    }
    __syncthreads();
  }
}

__global__ void exchanges_kernel(std::uint32_t* to) {
  const unsigned me = threadIdx.x;
  std::uint32_t* const out = to + kExchanges * me;
  out[0] = __shfl_sync(kAll, me, 5);
  out[1] = __shfl_sync(kAll, me, 9, 8);
  out[2] = __shfl_xor_sync(kAll, me, 3);
  out[3] = __shfl_xor_sync(kAll, me, 12, 8);
  out[4] = __shfl_down_sync(kAll, me, 4);
  out[5] = __shfl_down_sync(kAll, me, 6, 8);
  out[6] = __shfl_up_sync(kAll, me, 4);
  if (me < 4) {
    out[7] = __shfl_sync(0xfU, 100 + me, (me + 1) % 4);
  } else {
    out[7] = __ballot_sync(kAll ^ 0xfU, me % 3 == 0);
  }
  __syncwarp();
}

__global__ void counts_kernel(const std::uint32_t* values, std::uint32_t* histogram, std::uint32_t* largest,
                              int length) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= length) return;
  atomicAdd(&histogram[values[i] % 16], 1U);
  atomicMax(largest, values[i]);
}

__global__ void rounded_kernel(const float* from, unsigned short* to, int length) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < length) to[i] = __bfloat16_as_ushort(__float2bfloat16_rn(from[i]));
}

__global__ void votes_kernel(const int* from, int* to) {
  const int mine = from[threadIdx.x];
  to[3 * threadIdx.x] = __syncthreads_count(mine > 1);
  to[3 * threadIdx.x + 1] = __syncthreads_or(mine > 2);
  to[3 * threadIdx.x + 2] = __syncthreads_and(mine > 0);
}

__global__ void two_barriers_kernel(float* to) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  to[threadIdx.x] = 1;
}

__global__ void lane_outside_kernel(std::uint32_t* to) { to[threadIdx.x] = __ballot_sync(0xffffU, 1); }

__global__ void lane_never_comes_kernel(std::uint32_t* to) {
  if (threadIdx.x < 8) {
    to[threadIdx.x] = __ballot_sync(0x1ffU, 1);  // lane 8 meets the whole block instead
  }
  __syncthreads();
}

}  // namespace

cudaError_t fill(float* to, float value, long length, cudaStream_t stream) {
  const auto config = shape(blocks_for(length), kThreads, stream);
  return cudaLaunchKernelEx(&config, fill_kernel, to, value, length);
}

cudaError_t add_scaled(float* to, const float* from, float factor, long length, cudaStream_t stream) {
  const auto config = shape(blocks_for(length), kThreads, stream);
  return cudaLaunchKernelEx(&config, add_scaled_kernel, to, from, factor, length);
}

cudaError_t where_am_i(std::uint32_t* to, dim3 grid, dim3 block, cudaStream_t stream) {
  auto config = shape(1, block, stream);
  config.gridDim = grid;
  return cudaLaunchKernelEx(&config, where_kernel, to);
}

cudaError_t block_sums(const float* from, float* sums, long length, int blocks, cudaStream_t stream) {
  const auto config = shape(blocks, kThreads, stream);
  return cudaLaunchKernelEx(&config, block_sums_kernel<true>, from, sums, length);
}

cudaError_t block_sums_unguarded(const float* from, float* sums, long length, int blocks,
                                 cudaStream_t stream) {
  const auto config = shape(blocks, kThreads, stream);
  return cudaLaunchKernelEx(&config, block_sums_kernel<false>, from, sums, length);
}

template <bool kGuarded>
static cudaError_t multiply_with(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  auto config = shape(1, dim3(kTile, kTile), stream);
  config.gridDim = dim3((n + kTile - 1) / kTile, (n + kTile - 1) / kTile);
  return cudaLaunchKernelEx(&config, multiply_kernel<kGuarded>, a, b, c, n);
}

cudaError_t multiply(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  return multiply_with<true>(a, b, c, n, stream);
}

cudaError_t multiply_unguarded(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  return multiply_with<false>(a, b, c, n, stream);
}

cudaError_t reverse(const float* from, float* to, int block, int behind, cudaStream_t stream) {
  const auto config = shape(2, block, stream, block * sizeof(float));
  return cudaLaunchKernelEx(&config, reverse_kernel, from, to, behind);
}

cudaError_t allow_reverse(int shared_bytes) {
  return cudaFuncSetAttribute(reverse_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

cudaError_t copy_piecewise(const float* from, float* to, long length, Waits waits, cudaStream_t stream) {
  const auto config = shape(1, kThreads, stream);
  return cudaLaunchKernelEx(&config, copy_piecewise_kernel, from, to, length, waits);
}

cudaError_t exchanges(std::uint32_t* to, int threads, cudaStream_t stream) {
  const auto config = shape(1, threads, stream);
  return cudaLaunchKernelEx(&config, exchanges_kernel, to);
}

cudaError_t counts(const std::uint32_t* values, std::uint32_t* histogram, std::uint32_t* largest, int length,
                   cudaStream_t stream) {
  const auto config = shape(length / kThreads + 1, kThreads, stream);
  return cudaLaunchKernelEx(&config, counts_kernel, values, histogram, largest, length);
}

cudaError_t rounded(const float* from, unsigned short* to, int length, cudaStream_t stream) {
  const auto config = shape(length / kThreads + 1, kThreads, stream);
  return cudaLaunchKernelEx(&config, rounded_kernel, from, to, length);
}

cudaError_t votes(const int* from, int* to, int threads, cudaStream_t stream) {
  const auto config = shape(1, threads, stream);
  return cudaLaunchKernelEx(&config, votes_kernel, from, to);
}

cudaError_t two_barriers(float* to, cudaStream_t stream) {
  const auto config = shape(1, 64, stream);
  return cudaLaunchKernelEx(&config, two_barriers_kernel, to);
}

cudaError_t lane_outside_its_mask(std::uint32_t* to, cudaStream_t stream) {
  const auto config = shape(1, 32, stream);
  return cudaLaunchKernelEx(&config, lane_outside_kernel, to);
}

cudaError_t waits_for_a_lane_that_never_comes(std::uint32_t* to, cudaStream_t stream) {
  const auto config = shape(1, 32, stream);
  return cudaLaunchKernelEx(&config, lane_never_comes_kernel, to);
}

}  // namespace zp::lab
