// Causal attention, forward: first the maximum and the sum of every row, then the probabilities' product with
// v. A block has 64 rows of one head.
#include "kernels/cuda/attention.cuh"

namespace zp::kernels::cuda {
namespace {

struct Forward {
  AttentionShape shape;
  const float* qkv;
  float *out, *row_max, *row_sum;
};

// The largest of a row's scores; every thread that has a patch of the row gets it.
__device__ inline float largest_in_row(float x) {
#pragma unroll
  for (int half = kGroups / 2; half > 0; half /= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, x, half);
    x = x < other ? other : x;
  }
  return x + 0.0F;  // a zero has no sign
}

__device__ inline void row_maxima(Shared& shared, float (&max)[kGroup], const Head& head, const float* qkv,
                                  int64_t tile) {
  for (float& one : max) one = -INFINITY;
  for (TilePlace at{tile, 0}; at.column <= tile; ++at.column) {
    Patch s;
    scores(shared, s, head, qkv, at);
    for (int i = 0; i < kGroup; ++i) {
      for (int j = 0; j < kGroup; ++j) {
        if (at.sees(patch_row() + i, patch_column() + j)) max[i] = max[i] < s[i][j] ? s[i][j] : max[i];
      }
    }
  }
  for (float& one : max) one = largest_in_row(one);
}

__global__ void __launch_bounds__(kThreads) attention_rows(Forward p) {
  __shared__ __align__(16) Shared shared;
  const BlockPlace block(p.shape, Order::rows);
  const Head head{p.shape, block.sequence, block.head};
  float max[kGroup];
  row_maxima(shared, max, head, p.qkv, block.tile);
  LaneSums sums;
  for (TilePlace at{block.tile, 0}; at.column <= block.tile; ++at.column) {
    Patch s;
    scores(shared, s, head, p.qkv, at);
    for (int i = 0; i < kGroup; ++i) {
      for (int j = 0; j < kGroup; ++j) {
        s[i][j] = at.sees(patch_row() + i, patch_column() + j) ? exp(s[i][j] - max[i]) : 0.0F;
      }
    }
    put<Order::rows>(shared.weights, s);
    sums.add(shared.weights, at, p.shape);
  }
  const int64_t rows = head.in_rows() + block.tile * kTile;
  const int count = p.shape.count_of(block.tile);
  for (int i = 0; i < kGroup; ++i) {
    if (patch_column() == 0 && patch_row() + i < count) p.row_max[rows + patch_row() + i] = max[i];
  }
  for (int r = 0; r < LaneSums::kRows; ++r) {
    const float sum = sums.total(r);
    const int row = LaneSums::first_row() + r;
    if (threadIdx.x % kWarp == 0 && row < count) p.row_sum[rows + row] = sum;
  }
}

__global__ void __launch_bounds__(kThreads) attention(Forward p) {
  __shared__ __align__(16) Shared shared;
  const BlockPlace block(p.shape, Order::rows);
  const Head head{p.shape, block.sequence, block.head};
  const RowNumbers rows(head, block.tile, p.row_max, p.row_sum);
  ChainRows out;
  for (TilePlace at{block.tile, 0}; at.column <= block.tile; ++at.column) {
    Patch s;
    scores(shared, s, head, p.qkv, at);
    probabilities(s, rows, at);
    put<Order::columns>(shared.weights, s);
    out.add(shared, head.in_qkv(p.qkv, 2).from_tile(at.column), p.shape.count_of(at.column), block.from,
            p.shape.head_width);
    if (at.column == block.tile || cuts_behind(at.column)) out.cut();
  }
  out.store(head.in_out(p.out).from_tile(block.tile), p.shape.count_of(block.tile), block.from,
            p.shape.head_width);
}

}  // namespace

void run(const Context& context, const AttentionForward& call) {
  const auto* qkv = input<float>(call.qkv);
  auto* out = output<float>(call.out);
  const Forward p{.shape = AttentionShape::of(call, {qkv, out}),
                  .qkv = qkv,
                  .out = out,
                  .row_max = output<float>(call.row_max),
                  .row_sum = output<float>(call.row_sum)};
  launch(context, p.shape.grid_of_rows(), attention_rows, p);
  launch(context, p.shape.grid(), attention, p);
}

}  // namespace zp::kernels::cuda
