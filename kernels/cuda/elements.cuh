// Elements from and to memory of either float type, several by one access where addresses allow it, loops
// over independent elements, and what the threads of a warp add up.
#pragma once

#include "harness/base/type.hpp"
#include "kernels/cuda/launch.cuh"

namespace zp::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffU;

// As many elements as one access moves.
template <class T, int width>
struct alignas(sizeof(T) * width) Vector {
  T of[width];
};

template <int width, class T>
__device__ inline Vector<float, width> read(const T* p) {
  const auto raw = *reinterpret_cast<const Vector<T, width>*>(p);
  Vector<float, width> x;
#pragma unroll
  for (int j = 0; j < width; ++j) x.of[j] = widen(raw.of[j]);
  return x;
}

__device__ inline float narrowed(float x, float /*as*/) { return x; }
__device__ inline bf16 narrowed(float x, bf16 /*as*/) { return round_to_bf16(x); }

template <int width, class T>
__device__ inline void write(T* p, const Vector<float, width>& x) {
  Vector<T, width> raw;
#pragma unroll
  for (int j = 0; j < width; ++j) raw.of[j] = narrowed(x.of[j], T{});
  *reinterpret_cast<Vector<T, width>*>(p) = raw;
}

// Elements of one access in elementwise loops: 16 bytes of fp32, 8 of bf16.
inline constexpr int kWidth = 4;

template <class T>
bool is_aligned(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % (sizeof(T) * kWidth) == 0;
}

// body.run<width>(i) handles `width` elements from i on. Elements are independent of each other.
template <class Body>
__global__ void __launch_bounds__(kThreads) over_elements(int64_t length, bool aligned, Body body) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  const int64_t vectors = aligned ? length / kWidth : 0;
  for (int64_t v = thread; v < vectors; v += threads) body.template run<kWidth>(v * kWidth);
  for (int64_t i = vectors * kWidth + thread; i < length; i += threads) body.template run<1>(i);
}

template <class Body>
void launch_over_elements(const Context& context, int64_t length, bool aligned, const Body& body) {
  const int64_t steps = aligned ? blocks_for(length, kWidth) : length;
  launch(context, {.x = at_most(blocks_for(steps, kThreads), kMostBlocks)}, over_elements<Body>, length,
         aligned, body);
}

// body.run(i) handles element i.
template <class Body>
__global__ void __launch_bounds__(kThreads) over_each(int64_t length, Body body) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < length; i += threads) body.run(i);
}

template <class Body>
void launch_over_each(const Context& context, int64_t length, const Body& body) {
  launch(context, {.x = at_most(blocks_for(length, kThreads), kMostBlocks)}, over_each<Body>, length, body);
}

// body.run<width>(row, column) handles `width` elements of a row.
template <class Body>
__global__ void __launch_bounds__(kThreads)
    over_rows(int64_t rows, int64_t columns, bool aligned, Body body) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    if (aligned) {
      for (int64_t v = thread; v < columns / kWidth; v += threads) body.template run<kWidth>(row, v * kWidth);
    } else {
      for (int64_t c = thread; c < columns; c += threads) body.template run<1>(row, c);
    }
  }
}

// `aligned`: all pointers are. Whole vectors then need rows of whole vectors.
template <class Body>
void launch_over_rows(const Context& context, int64_t rows, int64_t columns, bool aligned, const Body& body) {
  const bool whole = aligned && columns % kWidth == 0;
  const int64_t warps = blocks_for(whole ? columns / kWidth : columns, kWarp);
  const int64_t threads = at_most(warps * kWarp, kThreads);
  launch(context,
         {.x = at_most(blocks_for(warps * kWarp, kThreads), kMostBlocks),
          .y = at_most(rows, kMostInY),
          .threads = static_cast<int>(threads)},
         over_rows<Body>, rows, columns, whole, body);
}

// The fold (l, l+16), 8, 4, 2, 1 over a warp's lanes; every lane gets it, since a sum of two is the same
// either way round.
__device__ inline float fold_lanes(float lane) {
#pragma unroll
  for (int half = kWarp / 2; half > 0; half /= 2) lane = lane + __shfl_xor_sync(kWholeWarp, lane, half);
  return lane;
}

// The largest of a warp's lanes, none being NaN.
__device__ inline float largest_lane(float lane) {
#pragma unroll
  for (int half = kWarp / 2; half > 0; half /= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, lane, half);
    lane = lane < other ? other : lane;
  }
  return lane;
}

// Whole numbers: in any order.
__device__ inline unsigned long long sum_lanes(unsigned long long lane) {
#pragma unroll
  for (int half = kWarp / 2; half > 0; half /= 2) lane += __shfl_xor_sync(kWholeWarp, lane, half);
  return lane;
}

}  // namespace zp::kernels::cuda
