// What attention forward and backward share: tiles of 64 rows i and 64 columns j of one head's scores, made
// and used by a block of 256 threads, 4 x 4 elements each. Rows and columns are cut at multiples of 64, as
// the contract's masked terms are. Scores are made anew wherever they are needed, so memory grows with T.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/formulas.cuh"

namespace zp::kernels::cuda {

inline constexpr int kTile = 64;
inline constexpr int kGroup = 4;  // rows and columns of a thread
inline constexpr int kGroups = kTile / kGroup;
static_assert(kGroups * kGroups == kThreads);
inline constexpr int kDepth = 32;  // of operands in shared memory, along a head's width
inline constexpr int kPad = 4;     // rows of shared memory stay 16-byte aligned

using Row = float[kTile + kPad];
using Panel = Row[kTile];
using Patch = float[kGroup][kGroup];  // a thread's part of a tile

enum class Order { rows, columns };

struct AttentionShape {
  int64_t sequence, width, heads, all_heads;  // of the batch
  int head_width;
  float scale;
  bool aligned;  // four elements of every head, from a multiple of four on, may be one access

  // `matrices`: all that have heads side by side in a row.
  template <class Attention>
  static AttentionShape of(const Attention& call, std::initializer_list<const float*> matrices) {
    const int64_t d = call.width / call.heads;
    return {.sequence = call.sequence,
            .width = call.width,
            .heads = call.heads,
            .all_heads = call.batch * call.heads,
            .head_width = static_cast<int>(d),
            .scale = 1.0F / std::sqrt(static_cast<float>(d)),
            .aligned = d % kGroup == 0 && std::all_of(matrices.begin(), matrices.end(), is_aligned<float>)};
  }

  ZP_HOST_DEVICE int64_t tiles() const { return (sequence + kTile - 1) / kTile; }
  // A block for each tile of each head, and for each 64 columns of the head's width.
  Grid grid() const { return {.x = tiles() * all_heads, .y = blocks_for(head_width, kTile)}; }
  Grid grid_of_rows() const { return {.x = tiles() * all_heads}; }
  // Rows or columns of tile `t` that exist.
  __device__ int count_of(int64_t t) const {
    return static_cast<int>(sequence - t * kTile < kTile ? sequence - t * kTile : kTile);
  }
};

// Rows of a matrix from some row on: element (i, c) stands at data[i·stride + c].
template <class Number>
struct RowsOf {
  Number* data;
  int64_t stride;
  bool aligned;  // see AttentionShape

  __device__ RowsOf from_tile(int64_t tile) const { return {data + tile * kTile * stride, stride, aligned}; }

  // Elements c … c + 3 of row i, of which `count` exist; the others are +0. c is a multiple of 4.
  __device__ Vector<float, kGroup> run(int i, int c, int count) const {
    const Number* from = data + i * stride + c;
    if (aligned && count >= kGroup) return read<kGroup>(from);
    Vector<float, kGroup> x;
#pragma unroll
    for (int j = 0; j < kGroup; ++j) x.of[j] = j < count ? from[j] : 0.0F;
    return x;
  }
  __device__ void set_run(int i, int c, int count, const Vector<float, kGroup>& x) const {
    Number* to = data + i * stride + c;
    if (aligned && count >= kGroup) return write(to, x);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      if (j < count) to[j] = x.of[j];
    }
  }
};
using Rows = RowsOf<const float>;

// One head of one sequence.
struct Head {
  const AttentionShape& shape;
  int64_t sequence, head;

  // Of q (part 0), k (1), v (2) or their gradients.
  template <class Number>
  __device__ RowsOf<Number> in_qkv(Number* qkv, int part) const {
    return {qkv + (sequence * shape.sequence * 3 + part) * shape.width + head * shape.head_width,
            3 * shape.width, shape.aligned};
  }
  template <class Number>
  __device__ RowsOf<Number> in_out(Number* out) const {
    return {out + sequence * shape.sequence * shape.width + head * shape.head_width, shape.width,
            shape.aligned};
  }
  // Of row maxima and the like: batch x heads x sequence.
  __device__ int64_t in_rows() const { return (sequence * shape.heads + head) * shape.sequence; }
};

// A thread's place in a tile.
__device__ inline int patch_row() { return static_cast<int>(threadIdx.x) / kGroups * kGroup; }
__device__ inline int patch_column() { return static_cast<int>(threadIdx.x) % kGroups * kGroup; }

struct Shared {
  Row left[kDepth];  // operands, [k][row]
  Panel right;       // the same, or values, [k][column]
  Panel weights;
};

// Rows to a panel of shared memory, turned: to[c][i] = element (i, first + c); +0 where none exists. A warp
// brings two runs of 16 rows: whole sectors of memory, and every lane stores to a bank of its own.
__device__ inline void bring_turned(Row* to, Rows rows, int count, int first, int depth) {
  for (int v = static_cast<int>(threadIdx.x); v < kTile * kDepth / kGroup; v += kThreads) {
    const int c = (v % 2 + v / (2 * kTile) * 2) * kGroup, i = v / 2 % kTile;
    if (c >= depth) continue;
    const auto x = rows.run(i, first + c, i < count ? depth - c : 0);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) to[c + j][i] = x.of[j];
  }
}

// chains[i][j] += left[k][row i]·right[k][column j] for k = 0 … depth - 1, in order.
__device__ inline void multiply(Patch& chains, const Row* left, const Row* right, int depth) {
  const int row = patch_row(), column = patch_column();
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    const auto a = read<kGroup>(&left[k][row]);
    const auto b = read<kGroup>(&right[k][column]);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
#pragma unroll
      for (int j = 0; j < kGroup; ++j) chains[i][j] = fmaf(a.of[i], b.of[j], chains[i][j]);
    }
  }
}

// A tile of a·bᵀ: one chain over the head's width an element. A head is at most 512 wide, so none is cut.
__device__ inline void multiply_rows(Shared& shared, Patch& product, Rows a, int a_count, Rows b, int b_count,
                                     int head_width) {
  for (auto& row : product) {
    for (float& chain : row) chain = 0.0F;
  }
  for (int first = 0; first < head_width; first += kDepth) {
    const int depth = head_width - first < kDepth ? head_width - first : kDepth;
    __syncthreads();  // the last use of the panels is over
    bring_turned(shared.left, a, a_count, first, depth);
    bring_turned(shared.right, b, b_count, first, depth);
    __syncthreads();
    multiply(product, shared.left, shared.right, depth);
  }
}

// A tile's place: rows i of tile `row`, columns j of tile `column`.
struct TilePlace {
  int64_t row, column;

  // Whether the element at (i, j) of this tile is seen, j ≤ i.
  __device__ bool sees(int i, int j) const { return column * kTile + j <= row * kTile + i; }
};

// Scores of a tile, times the scale; unseen ones are anything.
__device__ inline void scores(Shared& shared, Patch& s, const Head& head, const float* qkv, TilePlace at) {
  const AttentionShape& shape = head.shape;
  multiply_rows(shared, s, head.in_qkv(qkv, 0).from_tile(at.row), shape.count_of(at.row),
                head.in_qkv(qkv, 1).from_tile(at.column), shape.count_of(at.column), shape.head_width);
  for (auto& row : s) {
    for (float& one : row) one = one * shape.scale;
  }
}

// What is known of the rows of a thread's patch.
struct RowNumbers {
  float max[kGroup], inverse[kGroup];

  // Rows that do not exist get numbers that make no NaN.
  __device__ RowNumbers(const Head& head, int64_t tile, const float* row_max, const float* row_sum) {
    for (int i = 0; i < kGroup; ++i) {
      const bool exists = patch_row() + i < head.shape.count_of(tile);
      const int64_t at = head.in_rows() + tile * kTile + patch_row() + i;
      max[i] = exists ? row_max[at] : 0.0F;
      inverse[i] = exists ? 1.0F / row_sum[at] : 0.0F;
    }
  }
};

// Scores to probabilities; +0 where masked.
__device__ inline void probabilities(Patch& s, const RowNumbers& rows, TilePlace at) {
  for (int i = 0; i < kGroup; ++i) {
    for (int j = 0; j < kGroup; ++j) {
      s[i][j] =
          at.sees(patch_row() + i, patch_column() + j) ? exp(s[i][j] - rows.max[i]) * rows.inverse[i] : 0.0F;
    }
  }
}

// A thread's patch to shared memory: [i][j], or [j][i] where a chain runs over j. All threads arrive here.
template <Order order>
__device__ inline void put(Panel& to, const Patch& x) {
  __syncthreads();  // the last use of the panel is over
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    Vector<float, kGroup> line;
#pragma unroll
    for (int j = 0; j < kGroup; ++j) line.of[j] = order == Order::rows ? x[i][j] : x[j][i];
    const int row = patch_row(), column = patch_column();
    write(order == Order::rows ? &to[row + i][column] : &to[column + i][row], line);
  }
  __syncthreads();
}

// Sums of a row's elements over 32 lanes, a tile after another: warp w has rows 8w … 8w + 7, and lane l adds
// elements l and l + 32 of each tile.
struct LaneSums {
  static constexpr int kRows = kTile / (kThreads / kWarp);
  float of[kRows] = {};

  __device__ static int first_row() { return static_cast<int>(threadIdx.x) / kWarp * kRows; }

  __device__ void add(const Panel& x, TilePlace at, const AttentionShape& shape) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int r = 0; r < kRows; ++r) {
      for (int j = lane; j < shape.count_of(at.column); j += kWarp) {
        if (at.sees(first_row() + r, j)) of[r] = of[r] + x[first_row() + r][j];
      }
    }
  }

  // Row r's sum, in every lane of its warp.
  __device__ float total(int r) const { return fold_lanes(of[r]); }
};

// Rows of a result: chains over the terms of a row of tiles, cut at absolute index ≡ 0 mod 512, for 64
// columns of the head's width. A patch has 4 rows and 4 of these columns.
struct ChainRows {
  Patch chains = {};
  Patch sums = {};
  bool first = true;  // no chain is complete

  // Terms index … index + count - 1: weights [k][row] times values (count rows, from column `from` on). Both
  // panels are in use until the next barrier, with which multiply_rows() and put() begin.
  __device__ void add(Shared& shared, Rows values, int count, int from, int head_width) {
    for (int v = static_cast<int>(threadIdx.x); v < count * kGroups; v += kThreads) {
      const int k = v / kGroups, c = v % kGroups * kGroup;
      write(&shared.right[k][c], values.run(k, from + c, head_width - from - c));
    }
    __syncthreads();
    multiply(chains, shared.weights, shared.right, count);
  }

  // Ends the chains; the next ones start from +0.
  __device__ void cut() {
    for (int i = 0; i < kGroup; ++i) {
      for (int j = 0; j < kGroup; ++j) {
        sums[i][j] = first ? chains[i][j] : sums[i][j] + chains[i][j];
        chains[i][j] = 0.0F;
      }
    }
    first = false;
  }

  // To rows 0 … count - 1 of a result.
  __device__ void store(RowsOf<float> to, int count, int from, int head_width) const {
    const int column = from + patch_column();
    for (int i = 0; i < kGroup; ++i) {
      if (patch_row() + i >= count) continue;
      Vector<float, kGroup> line;
#pragma unroll
      for (int j = 0; j < kGroup; ++j) line.of[j] = sums[i][j];
      to.set_run(patch_row() + i, column, head_width - column, line);
    }
  }
};

// Whether a chain ends behind tile `t`.
__device__ inline bool cuts_behind(int64_t t) { return (t + 1) * kTile % kPanelDepth == 0; }

// Blocks in x: a tile of one head; in y: 64 columns of the head's width.
struct BlockPlace {
  int64_t tile, sequence, head;
  int from;

  // Tiles with most terms first, so that the blocks that start last are short: for rows, those at the end of
  // a sequence; for columns, those at its begin.
  __device__ BlockPlace(const AttentionShape& shape, Order order) {
    const int64_t one = blockIdx.x % shape.all_heads, turn = blockIdx.x / shape.all_heads;
    tile = order == Order::rows ? shape.tiles() - 1 - turn : turn;
    sequence = one / shape.heads;
    head = one % shape.heads;
    from = static_cast<int>(blockIdx.y) * kTile;
  }
};

}  // namespace zp::kernels::cuda
