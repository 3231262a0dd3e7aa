// Causal attention, forward: per head and block of 64 rows the scores, their softmax, and the product with v.
#include "kernels/host/attention.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

struct Head {
  const float *q, *k, *v;
  float *out, *row_max, *row_sum;
};

// Scores of one row become probabilities.
void softmax_row(float* x, int64_t n, float scale, float& max, float& sum) {
  scale_row(x, n, scale);
  max = row_max(x, n);
  exp_row(x, n, max);
  sum = row_sum(x, n);
  scale_row(x, n, 1.0F / sum);
}

void forward(const AttentionShape& shape, const Head& head, const AttentionSpace& space) {
  const int64_t d = shape.head_width();
  const int64_t stride = shape.stride();
  const int64_t step = shape.padded();
  float* p = space.probabilities;
  for (int64_t i = 0; i < shape.sequence; i += kRowBlock) {
    const int64_t columns = shape.columns_of(i);
    const int64_t rows = columns - i;
    space.multiply(Into::store, {head.q + i * stride, stride, 1}, {head.k, stride, 1}, p, step, rows, columns,
                   d);
    for (int64_t r = 0; r < rows; ++r) {
      softmax_row(p + r * step, i + r + 1, shape.scale(), head.row_max[i + r], head.row_sum[i + r]);
      mask_row(p + r * step, i + r + 1, columns);
    }
    space.multiply_long({p, step, 1}, {head.v, 1, stride}, head.out + i * shape.width, shape.width, rows, d,
                        columns);
  }
}

}  // namespace

void run(HostContext& context, const AttentionForward& call) {
  const AttentionShape shape = AttentionShape::of(call, context);
  require(call.out.length().n == shape.batch * shape.sequence * shape.width, "out holds R x width");
  const float* qkv = call.qkv.read<float>();
  float* out = call.out.write<float>();
  float* max = call.row_max.write<float>();
  float* sum = call.row_sum.write<float>();
  context.pool.parallel_for(shape.batch * shape.heads, [&](int64_t index, int worker) {
    const int64_t sequence = index / shape.heads;
    const int64_t column = index % shape.heads * shape.head_width();
    const float* q = qkv + sequence * shape.sequence * shape.stride() + column;
    const Head head{.q = q,
                    .k = q + shape.width,
                    .v = q + 2 * shape.width,
                    .out = out + sequence * shape.sequence * shape.width + column,
                    .row_max = max + index * shape.sequence,
                    .row_sum = sum + index * shape.sequence};
    forward(shape, head, AttentionSpace(context, shape, worker));
  });
}

}  // namespace zp::kernels::ZP_ISA
