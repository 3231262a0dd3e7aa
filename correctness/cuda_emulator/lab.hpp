// What the emulator's tests launch: small kernels, right and wrong ones, behind plain functions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace zp::lab {

// The whole interface between host code and kernels: launches, in stream order.
cudaError_t fill(float* to, float value, long length, cudaStream_t stream);
cudaError_t add_scaled(float* to, const float* from, float factor, long length, cudaStream_t stream);
cudaError_t where_am_i(std::uint32_t* to, dim3 grid, dim3 block, cudaStream_t stream);

// Sums of `blocks` parts by shuffles and shared memory; the second without the barrier between the two.
cudaError_t block_sums(const float* from, float* sums, long length, int blocks, cudaStream_t stream);
cudaError_t block_sums_unguarded(const float* from, float* sums, long length, int blocks,
                                 cudaStream_t stream);

// n by n, in tiles that lie in shared memory.
cudaError_t multiply(const float* a, const float* b, float* c, int n, cudaStream_t stream);
cudaError_t multiply_unguarded(const float* a, const float* b, float* c, int n, cudaStream_t stream);

// Reverses runs of `block` numbers by way of dynamic shared memory; `behind` threads write behind its end.
cudaError_t reverse(const float* from, float* to, int block, int behind, cudaStream_t stream);
cudaError_t allow_reverse(int shared_bytes);

// Copies by way of asynchronous copies into shared memory, two groups in flight.
enum class Waits { right, none, too_few };
cudaError_t copy_piecewise(const float* from, float* to, long length, Waits waits, cudaStream_t stream);

// What each lane of one warp gets from each kind of exchange: 8 numbers a lane.
constexpr int kExchanges = 8;
cudaError_t exchanges(std::uint32_t* to, int threads, cudaStream_t stream);
cudaError_t counts(const std::uint32_t* values, std::uint32_t* histogram, std::uint32_t* largest, int length,
                   cudaStream_t stream);
cudaError_t rounded(const float* from, unsigned short* to, int length, cudaStream_t stream);
cudaError_t votes(const int* from, int* to, int threads, cudaStream_t stream);

// Wrong barriers.
cudaError_t two_barriers(float* to, cudaStream_t stream);
cudaError_t lane_outside_its_mask(std::uint32_t* to, cudaStream_t stream);
cudaError_t waits_for_a_lane_that_never_comes(std::uint32_t* to, cudaStream_t stream);

}  // namespace zp::lab
