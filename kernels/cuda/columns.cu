// Sums of columns over rows in order: the gradients of a bias, and of layer norm's gain and bias. A block has
// 32 columns; its threads bring tiles of rows into shared memory by asynchronous copies, while one warp adds
// those that have come, a column a lane.
#include <cuda_pipeline.h>

#include "kernels/cuda/elements.cuh"

namespace zp::kernels::cuda {
namespace {

constexpr int kTileRows = 64;
using Tile = float[kTileRows][kWarp];

// Begins to copy rows first … of the block's columns; as many as exist.
__device__ inline void bring(Tile& tile, const float* x, int64_t rows, int64_t columns, int64_t first) {
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x % kWarp;
  if (column >= columns) return;
  for (int r = static_cast<int>(threadIdx.x / kWarp); r < kTileRows && first + r < rows;
       r += kThreads / kWarp) {
    __pipeline_memcpy_async(&tile[r][threadIdx.x % kWarp], x + (first + r) * columns + column, sizeof(float));
  }
}

// step(tile number, rows in it, first row) for tiles in order, each when it has come; start(tile number,
// first row) begins to bring one. Two tiles take turns.
template <class Start, class Step>
__device__ inline void over_tiles(int64_t rows, const Start& start, const Step& step) {
  if (rows > 0) start(0, int64_t{0});
  __pipeline_commit();
  int tile = 0;
  for (int64_t first = 0; first < rows; first += kTileRows, tile ^= 1) {
    if (first + kTileRows < rows) start(tile ^ 1, first + kTileRows);
    __pipeline_commit();
    __pipeline_wait_prior(1);  // all but the newest group
    __syncthreads();
    step(tile, static_cast<int>(rows - first < kTileRows ? rows - first : kTileRows), first);
    __syncthreads();  // before the tile is brought anew
  }
}

__global__ void __launch_bounds__(kThreads)
    bias_backward(const float* dy, float* dbias, int64_t rows, int64_t columns) {
  __shared__ Tile tiles[2];
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t column = int64_t{blockIdx.x} * kWarp + lane;
  const bool sums = threadIdx.x < kWarp && column < columns;
  float sum = 0.0F;
  over_tiles(
      rows, [&](int tile, int64_t first) { bring(tiles[tile], dy, rows, columns, first); },
      [&](int tile, int count, int64_t) {
        if (!sums) return;
        for (int r = 0; r < count; ++r) sum = sum + tiles[tile][r][lane];
      });
  if (sums) dbias[column] = sum;
}

struct NormColumns {
  const float *x, *mean, *rstd, *dy;
  float *dgain, *dbias;
  int64_t rows, width;
};

__global__ void __launch_bounds__(kThreads) layer_norm_columns(NormColumns p) {
  __shared__ Tile x[2], dy[2];
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t column = int64_t{blockIdx.x} * kWarp + lane;
  const bool sums = threadIdx.x < kWarp && column < p.width;
  float dgain = 0.0F, dbias = 0.0F;
  over_tiles(
      p.rows,
      [&](int tile, int64_t first) {
        bring(x[tile], p.x, p.rows, p.width, first);
        bring(dy[tile], p.dy, p.rows, p.width, first);
      },
      [&](int tile, int count, int64_t first) {
        if (!sums) return;
        for (int r = 0; r < count; ++r) {
          const float d = dy[tile][r][lane];
          dgain = fmaf(d, (x[tile][r][lane] - p.mean[first + r]) * p.rstd[first + r], dgain);
          dbias = dbias + d;
        }
      });
  if (!sums) return;
  p.dgain[column] = dgain;
  p.dbias[column] = dbias;
}

}  // namespace

void run(const Context& context, const BiasBackward& call) {
  launch(context, {.x = blocks_for(call.columns, kWarp)}, bias_backward, input<float>(call.dy),
         output<float>(call.dbias), call.rows, call.columns);
}

void run_columns(const Context& context, const LayerNormBackward& call) {
  if (call.dgain.empty() && call.dbias.empty()) return;
  const NormColumns p{.x = input<float>(call.x),
                      .mean = input<float>(call.mean),
                      .rstd = input<float>(call.rstd),
                      .dy = input<float>(call.dy),
                      .dgain = output<float>(call.dgain),
                      .dbias = output<float>(call.dbias),
                      .rows = call.rows,
                      .width = call.width};
  launch(context, {.x = blocks_for(call.width, kWarp)}, layer_norm_columns, p);
}

}  // namespace zp::kernels::cuda
