// What attention forward and backward share: one head of one sequence, its scores and its probabilities. Rows
// are taken in blocks of 64; a block sees columns 0 … its own end, and masked probabilities among them are
// +0.
#pragma once

#include "kernels/host/isa.hpp"
#include "kernels/host/math.hpp"
#include "kernels/host/panels.hpp"

namespace zp::kernels::ZP_ISA {

inline constexpr int64_t kRowBlock = 64;

struct AttentionShape {
  int64_t batch, sequence, width, heads;

  template <class Attention>
  static AttentionShape of(const Attention& call, const HostContext& context) {
    require(call.batch >= 0 && call.sequence >= 0 && call.heads >= 1 && call.width >= call.heads,
            "attention has heads of at least one element");
    require(call.width % call.heads == 0, "the heads of attention divide its width");
    require(call.width / call.heads <= kPanelDepth, "a head of attention is at most 512 wide");
    require(call.sequence <= context.options.max_sequence, "the table was made for attention rows this long");
    require(call.qkv.length().n == call.batch * call.sequence * 3 * call.width, "qkv holds R x 3·width");
    require(call.row_max.length().n == call.batch * call.heads * call.sequence &&
                call.row_sum.length().n == call.row_max.length().n,
            "row_max and row_sum hold batch x heads x sequence");
    return {call.batch, call.sequence, call.width, call.heads};
  }

  int64_t head_width() const { return width / heads; }
  int64_t stride() const { return 3 * width; }  // of qkv
  int64_t padded() const { return (sequence + kTileColumns - 1) / kTileColumns * kTileColumns; }
  float scale() const { return 1.0F / __builtin_sqrtf(static_cast<float>(head_width())); }
  int64_t columns_of(int64_t row) const {
    return row + kRowBlock < sequence ? row + kRowBlock : sequence;  // of a block that begins at `row`
  }
};

// One thread's part of the workspace: two matrices of at most 512 rows of padded() columns, and packed
// panels.
struct AttentionSpace {
  float *probabilities, *gradients, *packed_rows, *packed_columns;

  AttentionSpace(const HostContext& context, const AttentionShape& shape, int64_t worker) {
    const int64_t matrix = (shape.padded() < kPanelDepth ? shape.padded() : kPanelDepth) * shape.padded();
    const int64_t each = 2 * matrix + kStripRows * kPanelDepth;
    probabilities = context.workspace + worker * each;
    gradients = probabilities + matrix;
    packed_rows = gradients + matrix;
    packed_columns = packed_rows + (kStripRows - kTileColumns) * kPanelDepth;
  }

  // c (rows x columns, rows `step` apart) = or += one chain an element over `depth` ≤ 512 of a's and b's k.
  void multiply(Into into, Operand<float> a, Operand<float> b, float* c, int64_t step, int64_t rows,
                int64_t columns, int64_t depth) const {
    pack_rows(a, rows, depth, packed_rows);
    for (int64_t j = 0; j < columns; j += kTileColumns) {
      const int64_t part = columns - j < kTileColumns ? columns - j : kTileColumns;
      pack<kTileColumns>(b.at(j, 0), part, depth, packed_columns);
      multiply_panels(into, depth, packed_rows, packed_columns, c + j, step, rows, part);
    }
  }

  // The same over any depth: `begin` … `end` are absolute indices, at whose multiples of 512 chains end.
  void multiply_long(Operand<float> a, Operand<float> b, float* c, int64_t step, int64_t rows,
                     int64_t columns, int64_t depth) const {
    for (int64_t k = 0; k < depth; k += kPanelDepth) {
      multiply(k == 0 ? Into::store : Into::add, a.at(0, k), b.at(0, k), c, step, rows, columns,
               depth - k < kPanelDepth ? depth - k : kPanelDepth);
    }
  }
};

// Score row in place: x = x·scale, whole vectors, so that up to seven masked elements behind `n` are scaled
// too.
inline void scale_row(float* x, int64_t n, float scale) {
  for (int64_t j = 0; j < n; j += kLanes) store(x + j, load(x + j) * splat(scale));
}

// x = exp(x - max), in whole vectors as above.
inline void exp_row(float* x, int64_t n, float max) {
  for (int64_t j = 0; j < n; j += kLanes) store(x + j, exp(load(x + j) - splat(max)));
}

// +0 behind the diagonal, as far as the block's columns reach.
inline void mask_row(float* x, int64_t n, int64_t columns) {
  for (int64_t j = n; j < columns; ++j) x[j] = 0.0F;
}

}  // namespace zp::kernels::ZP_ISA
