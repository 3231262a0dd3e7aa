// Causal attention, backward: probabilities are recomputed per head in blocks of 64 rows, and kept, with
// their gradients, for the 512 rows over which a chain of dk and dv runs.
#include "kernels/host/attention.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

struct Head {
  const float *q, *k, *v, *dout, *row_max, *row_sum;
  float *dq, *dk, *dv;
};

// x·y over a row of n, in lanes.
float row_dot(const float* x, const float* y, int64_t n) {
  return row_lanes(n,
                   [x, y](auto read, int64_t i, F32x8 lanes) { return lanes + read(x + i) * read(y + i); });
}

// A row's p from its scores, and ds from dp, both in place.
void backward_row(float* p, float* ds, int64_t n, float scale, float max, float sum) {
  scale_row(p, n, scale);
  exp_row(p, n, max);
  scale_row(p, n, 1.0F / sum);
  const F32x8 w = splat(row_dot(ds, p, n));
  for (int64_t j = 0; j < n; j += kLanes) {
    store(ds + j, (load(p + j) * (load(ds + j) - w)) * splat(scale));
  }
}

// The pass over one head.
struct Backward {
  const AttentionShape& shape;
  const Head& head;
  const AttentionSpace& space;
  int64_t d = shape.head_width();
  int64_t stride = shape.stride();
  int64_t step = shape.padded();

  // p, ds and dq of the block of rows at i; `first` is the first row that is kept.
  void rows_at(int64_t i, int64_t first) const {
    const int64_t columns = shape.columns_of(i);
    const int64_t rows = columns - i;
    float* p = space.probabilities + (i - first) * step;
    float* ds = space.gradients + (i - first) * step;
    space.multiply(Into::store, {head.q + i * stride, stride, 1}, {head.k, stride, 1}, p, step, rows, columns,
                   d);
    space.multiply(Into::store, {head.dout + i * shape.width, shape.width, 1}, {head.v, stride, 1}, ds, step,
                   rows, columns, d);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t n = i + r + 1;
      backward_row(p + r * step, ds + r * step, n, shape.scale(), head.row_max[i + r], head.row_sum[i + r]);
      mask_row(p + r * step, n, columns);
      mask_row(ds + r * step, n, columns);
    }
    space.multiply_long({ds, step, 1}, {head.k, 1, stride}, head.dq + i * stride, stride, rows, d, columns);
  }

  // What rows first … end-1 add to dk and dv of the block of columns at j.
  void columns_at(int64_t j, int64_t first, int64_t end) const {
    const int64_t begin = first > j ? first : j;
    const Into into = first > j ? Into::add : Into::store;
    const int64_t columns = shape.columns_of(j) - j;
    const int64_t at = (begin - first) * step + j;
    space.multiply(into, {space.gradients + at, 1, step}, {head.q + begin * stride, 1, stride},
                   head.dk + j * stride, stride, columns, d, end - begin);
    space.multiply(into, {space.probabilities + at, 1, step},
                   {head.dout + begin * shape.width, 1, shape.width}, head.dv + j * stride, stride, columns,
                   d, end - begin);
  }

  void run() const {
    for (int64_t first = 0; first < shape.sequence; first += kPanelDepth) {
      const int64_t end = first + kPanelDepth < shape.sequence ? first + kPanelDepth : shape.sequence;
      for (int64_t i = first; i < end; i += kRowBlock) rows_at(i, first);
      for (int64_t j = 0; j < end; j += kRowBlock) columns_at(j, first, end);
    }
  }
};

}  // namespace

void run(HostContext& context, const AttentionBackward& call) {
  const AttentionShape shape = AttentionShape::of(call, context);
  require(call.dout.length().n == shape.batch * shape.sequence * shape.width, "dout holds R x width");
  require(call.dqkv.length() == call.qkv.length(), "dqkv is as qkv");
  const float* qkv = call.qkv.read<float>();
  const float* dout = call.dout.read<float>();
  const float* max = call.row_max.read<float>();
  const float* sum = call.row_sum.read<float>();
  float* dqkv = call.dqkv.write<float>();
  context.pool.parallel_for(shape.batch * shape.heads, [&](int64_t index, int worker) {
    const int64_t sequence = index / shape.heads;
    const int64_t column = index % shape.heads * shape.head_width();
    const int64_t at = sequence * shape.sequence * shape.stride() + column;
    const Head head{.q = qkv + at,
                    .k = qkv + at + shape.width,
                    .v = qkv + at + 2 * shape.width,
                    .dout = dout + sequence * shape.sequence * shape.width + column,
                    .row_max = max + index * shape.sequence,
                    .row_sum = sum + index * shape.sequence,
                    .dq = dqkv + at,
                    .dk = dqkv + at + shape.width,
                    .dv = dqkv + at + 2 * shape.width};
    const AttentionSpace space(context, shape, worker);
    Backward{.shape = shape, .head = head, .space = space}.run();
  });
}

}  // namespace zp::kernels::ZP_ISA
