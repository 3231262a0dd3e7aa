// Causal attention, backward: probabilities are recomputed per head in blocks of 64 rows, and kept, with
// their gradients, for the 512 rows over which a chain of dk and dv runs.
#include "kernels/host/attention.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

struct BackwardHead {
  const float *q, *k, *v, *dout, *row_max, *row_sum;
  float *dq, *dk, *dv;
};

// A row's p from its scores; +0 from n to columns.
void probabilities_row(float* p, int64_t n, int64_t columns, float scale, float max, float sum) {
  const Floats factor = splat(scale), all_max = splat(max), inverse = splat(1.0F / sum);
  over_pairs<Front>(0, n, [=](auto lanes, int64_t j) {
    write(lanes, p + j, exp(read(lanes, p + j) * factor - all_max) * inverse);
  });
  mask_row(p, n, columns);
}

// A row's ds from dp, likewise.
void gradients_row(const float* p, float* ds, int64_t n, int64_t columns, float scale) {
  const Floats w = splat(row_lanes<Front>(
      n, [=](auto lanes, int64_t j, auto sums) { return sums + read(lanes, ds + j) * read(lanes, p + j); }));
  const Floats factor = splat(scale);
  over_lanes<Front>(0, n, [=](auto lanes, int64_t j) {
    write(lanes, ds + j, (read(lanes, p + j) * (read(lanes, ds + j) - w)) * factor);
  });
  mask_row(ds, n, columns);
}

// The pass over one head, for rows first … end-1, at most 512: those over which one chain of dk and dv runs.
struct AttentionPass {
  const AttentionShape& shape;
  const BackwardHead& head;
  const AttentionSpace& space;
  int64_t first, end;
  int64_t d = shape.head_width();
  int64_t stride = shape.stride();

  float* p_of(int64_t row) const { return space.probabilities + (row - first) * space.step; }
  float* ds_of(int64_t row) const { return space.gradients + (row - first) * space.step; }

  void probabilities() const {
    space.pack_right({head.k, stride, 1}, end, d);
    for (int64_t i = first; i < end; i += kRowBlock) {
      const int64_t columns = shape.columns_of(i);
      space.multiply_seen({head.q + i * stride, stride, 1}, d, p_of(i), columns - i, i + 1);
      for (int64_t row = i; row < columns; ++row) {
        ask_for(head.v + row * stride, d);
        ask_for(head.dout + row * shape.width, d);
        probabilities_row(p_of(row), row + 1, columns, shape.scale(), head.row_max[row], head.row_sum[row]);
      }
    }
  }

  void gradients() const {
    space.pack_right({head.v, stride, 1}, end, d);
    for (int64_t i = first; i < end; i += kRowBlock) {
      const int64_t columns = shape.columns_of(i);
      space.multiply_seen({head.dout + i * shape.width, shape.width, 1}, d, ds_of(i), columns - i, i + 1);
      for (int64_t row = i; row < columns; ++row) {
        ask_for(head.q + row * stride + d, d);  // the next head's
        ask_for(head.k + row * stride + d, d);
        gradients_row(p_of(row), ds_of(row), row + 1, columns, shape.scale());
      }
    }
  }

  void rows() const {
    space.pack_right({head.k, 1, stride}, d, end);
    for (int64_t i = first; i < end; i += kRowBlock) {
      const int64_t columns = shape.columns_of(i);
      space.multiply_masked(ds_of(i), i + 1, columns, end, head.dq + i * stride, stride, columns - i, d);
    }
  }

  // What these rows add to dk (weights ds, b = q) or dv (weights p, b = dout). Of a column's masked terms at
  // the beginning of its chain those before its tile are left out: from +0 they lead to +0.
  void columns(const float* weights, Operand<float> b, float* to) const {
    space.pack_right(b, d, end - first);
    for (int64_t column = 0; column < d; column += kTileColumns) {
      int64_t rows = 0;
      for (int64_t j = 0; j < end; j += rows) {
        const int64_t last = shape.columns_of(j / kRowBlock * kRowBlock);
        rows = j + kTileRows < last ? kTileRows : last - j;
        const int64_t begin = first > j ? first : j;
        space.multiply<Rows::across>(first > j ? Into::add : Into::store,
                                     weights + (begin - first) * space.step + j, begin - first, end - first,
                                     end - first, to + j * stride, stride, rows, column, d);
      }
    }
  }

  void run() const {
    probabilities();
    gradients();
    rows();
    columns(space.gradients, {head.q + first * stride, 1, stride}, head.dk);
    columns(space.probabilities, {head.dout + first * shape.width, 1, shape.width}, head.dv);
  }
};

}  // namespace

void run(HostContext& context, const AttentionBackward& call) {
  const AttentionShape shape = AttentionShape::of(call, context);
  const float* qkv = call.qkv.read<float>();
  const float* dout = call.dout.read<float>();
  const float* max = call.row_max.read<float>();
  const float* sum = call.row_sum.read<float>();
  float* dqkv = call.dqkv.write<float>();
  context.pool.parallel_for(shape.batch * shape.heads, [&](int64_t index, int worker) {
    const int64_t sequence = index / shape.heads;
    const int64_t column = index % shape.heads * shape.head_width();
    const int64_t at = sequence * shape.sequence * shape.stride() + column;
    const BackwardHead head{.q = qkv + at,
                            .k = qkv + at + shape.width,
                            .v = qkv + at + 2 * shape.width,
                            .dout = dout + sequence * shape.sequence * shape.width + column,
                            .row_max = max + index * shape.sequence,
                            .row_sum = sum + index * shape.sequence,
                            .dq = dqkv + at,
                            .dk = dqkv + at + shape.width,
                            .dv = dqkv + at + 2 * shape.width};
    const AttentionSpace space(context, shape, worker);
    for (int64_t first = 0; first < shape.sequence; first += kPanelDepth) {
      const int64_t end = first + kPanelDepth < shape.sequence ? first + kPanelDepth : shape.sequence;
      AttentionPass{.shape = shape, .head = head, .space = space, .first = first, .end = end}.run();
    }
  });
}

}  // namespace zp::kernels::ZP_ISA
