// Sums of columns over rows in order: the gradients of a bias, and of layer norm's gain and bias. A sum is
// one chain of additions, so rate comes from many columns at once and from rows that are there in time: a
// block has 16 columns, and its threads bring tiles of rows into a ring in shared memory by asynchronous
// copies, while as many of them as there are columns add up the tile that came first.
#include <cuda_pipeline.h>

#include "kernels/cuda/elements.cuh"

namespace zp::kernels::cuda {
namespace {

constexpr int kBlockColumns = 16;  // of a block: 64 bytes of each row, two sectors
constexpr int kTileRows = 64;
using Tile = float[kTileRows][kBlockColumns];
using RowNumbers = float[kTileRows];  // a number for each row

// Tiles of a matrix, and how far they reach in it.
struct Columns {
  int64_t rows, columns;
  bool aligned;  // kWidth elements of a row, from a multiple of kWidth on, are one access

  __device__ int count_from(int64_t first) const {
    return static_cast<int>(rows - first < kTileRows ? rows - first : kTileRows);
  }
  // Begins to copy rows first … of the block's columns; as many as exist.
  template <int width>
  __device__ void bring_by(Tile& tile, const float* x, int64_t first) const {
    constexpr int kEach = kBlockColumns / width;  // threads of a row
    const int in_tile = static_cast<int>(threadIdx.x) % kEach * width;
    const int64_t column = int64_t{blockIdx.x} * kBlockColumns + in_tile;
    if (column >= columns) return;
    for (int r = static_cast<int>(threadIdx.x) / kEach; r < count_from(first); r += kThreads / kEach) {
      __pipeline_memcpy_async(&tile[r][in_tile], x + (first + r) * columns + column, width * sizeof(float));
    }
  }
  __device__ void bring(Tile& tile, const float* x, int64_t first) const {
    if (aligned) {
      bring_by<kWidth>(tile, x, first);
    } else {
      bring_by<1>(tile, x, first);
    }
  }
  // The same of a number for each row, by the threads from `from` on.
  __device__ void bring(RowNumbers& tile, const float* x, int64_t first, int from) const {
    const int r = static_cast<int>(threadIdx.x) - from;
    if (r < 0 || r >= count_from(first)) return;
    __pipeline_memcpy_async(&tile[r], x + first + r, sizeof(float));
  }
};

template <class... T>
Columns columns_of(int64_t rows, int64_t columns, const T*... matrices) {
  return {
      .rows = rows, .columns = columns, .aligned = columns % kWidth == 0 && (is_aligned(matrices) && ...)};
}

// step(tile number, rows in it) for tiles in order, each when it has come; start(tile number, first row)
// begins to bring one. `stages` of them take turns.
template <int stages, class Start, class Step>
__device__ inline void over_tiles(const Columns& all, const Start& start, const Step& step) {
  for (int tile = 0; tile < stages - 1; ++tile) {
    if (int64_t{tile} * kTileRows < all.rows) start(tile, int64_t{tile} * kTileRows);
    __pipeline_commit();
  }
  int now = 0, free = stages - 1;
  for (int64_t first = 0; first < all.rows; first += kTileRows) {
    __pipeline_wait_prior(stages - 2);
    __syncthreads();  // all of the tile is there, and all have done with the one before, which is free now
    const int64_t ahead = first + int64_t{stages - 1} * kTileRows;
    if (ahead < all.rows) start(free, ahead);
    __pipeline_commit();
    step(now, all.count_from(first));
    free = now;
    now = now + 1 == stages ? 0 : now + 1;
  }
}

// add(row) for `count` rows of a tile, in order. The length of a whole tile is known beforehand, so that its
// numbers are read ahead of the chain.
template <class Add>
__device__ inline void over_tile_rows(int count, const Add& add) {
  if (count == kTileRows) {
#pragma unroll 16
    for (int r = 0; r < kTileRows; ++r) add(r);
    return;
  }
  for (int r = 0; r < count; ++r) add(r);
}

constexpr int kBiasStages = 10;  // 40 KiB

__global__ void __launch_bounds__(kThreads) bias_backward(Columns all, const float* dy, float* dbias) {
  __shared__ __align__(16) Tile tiles[kBiasStages];
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t column = int64_t{blockIdx.x} * kBlockColumns + lane;
  const bool sums = lane < kBlockColumns && column < all.columns;
  float sum = 0.0F;
  over_tiles<kBiasStages>(
      all, [&](int tile, int64_t first) { all.bring(tiles[tile], dy, first); },
      [&](int tile, int count) {
        if (sums) over_tile_rows(count, [&](int r) { sum = sum + tiles[tile][r][lane]; });
      });
  if (sums) dbias[column] = sum;
}

constexpr int kNormStages = 5;  // 42.5 KiB

struct NormTile {
  alignas(16) Tile x;
  alignas(16) Tile dy;
  RowNumbers mean, rstd;
};

struct NormColumns {
  Columns all;
  const float *x, *mean, *rstd, *dy;
  float *dgain, *dbias;
};

__global__ void __launch_bounds__(kThreads) layer_norm_columns(NormColumns p) {
  __shared__ NormTile tiles[kNormStages];
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t column = int64_t{blockIdx.x} * kBlockColumns + lane;
  const bool sums = lane < kBlockColumns && column < p.all.columns;
  float dgain = 0.0F, dbias = 0.0F;
  over_tiles<kNormStages>(
      p.all,
      [&](int tile, int64_t first) {
        NormTile& to = tiles[tile];
        p.all.bring(to.x, p.x, first);
        p.all.bring(to.dy, p.dy, first);
        p.all.bring(to.mean, p.mean, first, 0);
        p.all.bring(to.rstd, p.rstd, first, kTileRows);
      },
      [&](int tile, int count) {
        if (!sums) return;
        const NormTile& from = tiles[tile];
        over_tile_rows(count, [&](int r) {
          const float d = from.dy[r][lane];
          dgain = fmaf(d, (from.x[r][lane] - from.mean[r]) * from.rstd[r], dgain);
          dbias = dbias + d;
        });
      });
  if (!sums) return;
  p.dgain[column] = dgain;
  p.dbias[column] = dbias;
}

}  // namespace

void run(const Context& context, const BiasBackward& call) {
  const auto* dy = input<float>(call.dy);
  launch(context, {.x = blocks_for(call.columns, kBlockColumns)}, bias_backward,
         columns_of(call.rows, call.columns, dy), dy, output<float>(call.dbias));
}

void run_columns(const Context& context, const LayerNormBackward& call) {
  if (call.dgain.empty() && call.dbias.empty()) return;
  const auto *x = input<float>(call.x), *dy = input<float>(call.dy);
  const NormColumns p{.all = columns_of(call.rows, call.width, x, dy),
                      .x = x,
                      .mean = input<float>(call.mean),
                      .rstd = input<float>(call.rstd),
                      .dy = dy,
                      .dgain = output<float>(call.dgain),
                      .dbias = output<float>(call.dbias)};
  launch(context, {.x = blocks_for(call.width, kBlockColumns)}, layer_norm_columns, p);
}

}  // namespace zp::kernels::cuda
