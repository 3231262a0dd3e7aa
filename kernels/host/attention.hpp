// What attention forward and backward share: one head of one sequence, its scores and its probabilities. Rows
// are taken in blocks of 64; a block sees columns 0 … its own end, and masked probabilities among them are
// +0.
#pragma once

#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"
#include "kernels/host/panels.hpp"

namespace zp::kernels::ZP_ISA {

inline constexpr int64_t kRowBlock = 64;
// Between the rows of a matrix, so that a column's elements spread over the cache. Rows are written in whole
// vectors.
inline constexpr int64_t kRowGap = 16;

struct AttentionShape {
  int64_t batch, sequence, width, heads;

  template <class Attention>
  static AttentionShape of(const Attention& call, const HostContext& context) {
    require(call.sequence <= context.options.max_sequence, "the table was made for attention rows this long");
    return {call.batch, call.sequence, call.width, call.heads};
  }

  int64_t head_width() const { return width / heads; }
  int64_t stride() const { return 3 * width; }  // of qkv
  float scale() const { return 1.0F / __builtin_sqrtf(static_cast<float>(head_width())); }
  int64_t columns_of(int64_t row) const {
    return row + kRowBlock < sequence ? row + kRowBlock : sequence;  // of a block that begins at `row`
  }
};

// One thread's part of the workspace: two matrices of at most 512 rows and T columns, rows `step` apart; one
// operand packed in panels of columns, read by all blocks of rows; and one block of rows packed.
struct AttentionSpace {
  float *probabilities, *gradients, *packed_columns, *packed_rows;
  int64_t step;

  AttentionSpace(const HostContext& context, const AttentionShape& shape, int64_t worker) {
    const int64_t longest = (shape.sequence + 31) / 32 * 32;
    step = longest + kRowGap;
    const int64_t matrix = (longest < kPanelDepth ? longest : kPanelDepth) * step;
    probabilities = context.workspace + worker * (2 * matrix + (longest + kStripRows) * kPanelDepth);
    gradients = probabilities + matrix;
    packed_columns = gradients + matrix;
    packed_rows = packed_columns + longest * kPanelDepth;
  }

  // Packs `columns` columns of an operand with `depth` k for the calls that follow.
  void pack_right(Operand<float> b, int64_t columns, int64_t depth) const {
    pack_panels<kTileColumns>(b, columns, depth, packed_columns);
  }

  // c = a·b where both are `depth` deep: scores of a block of `rows` rows. Row r of the block sees r + seen
  // columns; tiles that no row sees are left out.
  void multiply_seen(Operand<float> a, int64_t depth, float* c, int64_t rows, int64_t seen) const {
    pack_panels<kTileRows>(a, rows, depth, packed_rows);
    for (int64_t j = 0; j < seen + rows - 1; j += kTileColumns) {
      const int64_t blind = j < seen ? 0 : (j - seen + 1) / kTileRows * kTileRows;
      const int64_t columns = seen + rows - 1 - j < kTileColumns ? seen + rows - 1 - j : kTileColumns;
      multiply_packed(Into::store, depth, packed_rows + blind * depth, packed_columns + j * depth,
                      c + blind * step + j, step, rows - blind, columns);
    }
  }

  // c (rows x columns) = or += one chain an element over k = begin … end-1 of what was packed `depth` deep.
  // Rows::along: a's rows are rows of a matrix above; Rows::across: they are its columns.
  template <Rows order>
  void multiply(Into into, const float* a, int64_t begin, int64_t end, int64_t depth, float* c,
                int64_t c_step, int64_t rows, int64_t column, int64_t columns) const {
    const int64_t part = columns - column < kTileColumns ? columns - column : kTileColumns;
    multiply_unpacked<order>(into, end - begin, {a, step},
                             packed_columns + column * depth + begin * kTileColumns, c + column, c_step, rows,
                             part);
  }

  // c = rows of weights (of a matrix above) · b, over k = 0 … count-1; chains end at multiples of 512.
  void multiply_weights(const float* weights, int64_t count, int64_t depth, float* c, int64_t c_step,
                        int64_t rows, int64_t columns) const {
    for (int64_t k = 0; k < count; k += kPanelDepth) {
      const int64_t end = k + kPanelDepth < count ? k + kPanelDepth : count;
      for (int64_t column = 0; column < columns; column += kTileColumns) {
        multiply<Rows::along>(k == 0 ? Into::store : Into::add, weights + k, k, end, depth, c, c_step, rows,
                              column, columns);
      }
    }
  }

  // c = rows of weights · b, over k = 0 … count-1, where row r's weights are +0 from seen + r on: of these a
  // tile leaves out those that all its rows have. A term of +0 leaves a chain as it is, but for -0, so a tile
  // that ends in a -0 is made again, in full.
  void multiply_masked(const float* weights, int64_t seen, int64_t count, int64_t depth, float* c,
                       int64_t c_step, int64_t rows, int64_t columns) const {
    for (int64_t row = 0; row < rows; row += kTileRows) {
      const int64_t height = rows - row < kTileRows ? rows - row : kTileRows;
      const int64_t last = seen + row + height - 1;
      const float* tile = weights + row * step;
      float* to = c + row * c_step;
      multiply_weights(tile, last < count ? last : count, depth, to, c_step, height, columns);
      if (last < count && has_negative_zero(to, c_step, height, columns)) {
        multiply_weights(tile, count, depth, to, c_step, height, columns);
      }
    }
  }

 private:
  static bool has_negative_zero(const float* c, int64_t c_step, int64_t rows, int64_t columns) {
    int found = 0;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        found |= __builtin_bit_cast(int32_t, c[i * c_step + j]) == INT32_MIN ? 1 : 0;
      }
    }
    return found != 0;
  }
};

// Asks for the cache lines of d elements that are needed soon.
inline void ask_for(const float* x, int64_t d) {
  for (int64_t c = 0; c < d; c += 16) __builtin_prefetch(x + c);
}

// +0 behind the diagonal, as far as the block's columns reach; `Front` wrote it to the end of a vector.
inline void mask_row(float* x, int64_t n, int64_t columns) {
  for (int64_t j = (n + kLanes - 1) / kLanes * kLanes; j < columns; j += kLanes) store(x + j, splat(0.0F));
}

}  // namespace zp::kernels::ZP_ISA
