// Causal attention, backward, from the rows' maxima and sums: first every row's w, then dq by blocks of 64
// rows, and dk and dv by blocks of 64 columns.
#include "kernels/cuda/attention.cuh"

namespace zp::kernels::cuda {
namespace {

struct Backward {
  AttentionShape shape;
  const float *qkv, *row_max, *row_sum, *dout;
  float *dqkv, *w;  // w: batch x heads x sequence
};

// A tile of dp = dout·vᵀ.
__device__ inline void multiply_dout(Shared& shared, Patch& dp, const Head& head, const Backward& p,
                                     TilePlace at) {
  multiply_rows(shared, dp, head.in_out(p.dout).from_tile(at.row), p.shape.count_of(at.row),
                head.in_qkv(p.qkv, 2).from_tile(at.column), p.shape.count_of(at.column), p.shape.head_width);
}

// dp to ds; +0 where masked.
__device__ inline void score_gradients(Patch& dp, const Patch& probability, const Head& head,
                                       const Backward& p, TilePlace at) {
  const int64_t rows = head.in_rows() + at.row * kTile;
  for (int i = 0; i < kGroup; ++i) {
    const int row = patch_row() + i;
    const float w = row < p.shape.count_of(at.row) ? p.w[rows + row] : 0.0F;
    for (int j = 0; j < kGroup; ++j) {
      dp[i][j] =
          at.sees(row, patch_column() + j) ? (probability[i][j] * (dp[i][j] - w)) * p.shape.scale : 0.0F;
    }
  }
}

__global__ void __launch_bounds__(kThreads) attention_backward_rows(Backward p) {
  __shared__ __align__(16) Shared shared;
  const BlockPlace block(p.shape, Order::rows);
  const Head head{p.shape, block.sequence, block.head};
  const RowNumbers rows(head, block.tile, p.row_max, p.row_sum);
  LaneSums sums;
  for (TilePlace at{block.tile, 0}; at.column <= block.tile; ++at.column) {
    Patch s, dp;
    scores(shared, s, head, p.qkv, at);
    probabilities(s, rows, at);
    multiply_dout(shared, dp, head, p, at);
    for (int i = 0; i < kGroup; ++i) {
      for (int j = 0; j < kGroup; ++j) dp[i][j] = dp[i][j] * s[i][j];
    }
    put<Order::rows>(shared.weights, dp);
    sums.add(shared.weights, at, p.shape);
  }
  for (int r = 0; r < LaneSums::kRows; ++r) {
    const float w = sums.total(r);
    const int row = LaneSums::first_row() + r;
    if (threadIdx.x % kWarp == 0 && row < p.shape.count_of(block.tile)) {
      p.w[head.in_rows() + block.tile * kTile + row] = w;
    }
  }
}

// Part 0, 1 or 2 of dqkv, from a tile on.
__device__ inline void store_part(const ChainRows& rows, const Head& head, const Backward& p, int part,
                                  const BlockPlace& block) {
  rows.store(head.in_qkv(p.dqkv, part).from_tile(block.tile), p.shape.count_of(block.tile), block.from,
             p.shape.head_width);
}

__global__ void __launch_bounds__(kThreads) attention_dq(Backward p) {
  __shared__ __align__(16) Shared shared;
  const BlockPlace block(p.shape, Order::rows);
  const Head head{p.shape, block.sequence, block.head};
  const RowNumbers rows(head, block.tile, p.row_max, p.row_sum);
  ChainRows dq;
  for (TilePlace at{block.tile, 0}; at.column <= block.tile; ++at.column) {
    Patch s, ds;
    scores(shared, s, head, p.qkv, at);
    probabilities(s, rows, at);
    multiply_dout(shared, ds, head, p, at);
    score_gradients(ds, s, head, p, at);
    put<Order::columns>(shared.weights, ds);
    dq.add(shared, head.in_qkv(p.qkv, 1).from_tile(at.column), p.shape.count_of(at.column), block.from,
           p.shape.head_width);
    if (at.column == block.tile || cuts_behind(at.column)) dq.cut();
  }
  store_part(dq, head, p, 0, block);
}

__global__ void __launch_bounds__(kThreads) attention_dkv(Backward p) {
  __shared__ __align__(16) Shared shared;
  const BlockPlace block(p.shape, Order::columns);
  const Head head{p.shape, block.sequence, block.head};
  const int64_t last = p.shape.tiles() - 1;
  ChainRows dk, dv;
  for (TilePlace at{block.tile, block.tile}; at.row <= last; ++at.row) {
    const RowNumbers rows(head, at.row, p.row_max, p.row_sum);
    const int count = p.shape.count_of(at.row);
    Patch s, ds;
    scores(shared, s, head, p.qkv, at);
    probabilities(s, rows, at);
    multiply_dout(shared, ds, head, p, at);
    score_gradients(ds, s, head, p, at);
    put<Order::rows>(shared.weights, s);
    dv.add(shared, head.in_out(p.dout).from_tile(at.row), count, block.from, p.shape.head_width);
    put<Order::rows>(shared.weights, ds);
    dk.add(shared, head.in_qkv(p.qkv, 0).from_tile(at.row), count, block.from, p.shape.head_width);
    if (at.row == last || cuts_behind(at.row)) {
      dv.cut();
      dk.cut();
    }
  }
  store_part(dk, head, p, 1, block);
  store_part(dv, head, p, 2, block);
}

}  // namespace

void run(const Context& context, const AttentionBackward& call) {
  const auto *qkv = input<float>(call.qkv), *dout = input<float>(call.dout);
  auto* dqkv = output<float>(call.dqkv);
  const Backward p{.shape = AttentionShape::of(call, {qkv, dout, dqkv}),
                   .qkv = qkv,
                   .row_max = input<float>(call.row_max),
                   .row_sum = input<float>(call.row_sum),
                   .dout = dout,
                   .dqkv = dqkv,
                   .w = context.attention_rows};
  require(p.shape.all_heads * p.shape.sequence <= context.max_attention_rows,
          "the table was made for as many rows of attention");
  launch(context, p.shape.grid_of_rows(), attention_backward_rows, p);
  launch(context, p.shape.grid(), attention_dq, p);
  launch(context, p.shape.grid(), attention_dkv, p);
}

}  // namespace zp::kernels::cuda
