// Causal attention, forward: per head and group of rows the scores, their softmax, and the product with v.
#include "kernels/host/attention.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

struct Head {
  const float *q, *k, *v;
  float *out, *row_max, *row_sum;
};

// Rows whose probabilities exist at once.
constexpr int64_t kProbabilityRows = 256;

// Scores of one row become probabilities; +0 from n to columns.
void softmax_row(float* x, int64_t n, int64_t columns, float scale, float& max, float& sum) {
  max = row_max<Front>(x, n, scale);
  const Floats factor = splat(scale), all_max = splat(max);
  sum = row_lanes<Front>(n, [=](auto lanes, int64_t j, auto sums) {
    const auto e = exp(read(lanes, x + j) * factor - all_max);
    write(lanes, x + j, e);
    return sums + e;
  });
  const Floats inverse = splat(1.0F / sum);
  over_lanes<Front>(0, n, [=](auto lanes, int64_t j) { write(lanes, x + j, read(lanes, x + j) * inverse); });
  mask_row(x, n, columns);
}

// Rows first … end-1.
void forward(const AttentionShape& shape, const Head& head, const AttentionSpace& space, int64_t first,
             int64_t end) {
  const int64_t d = shape.head_width();
  const int64_t stride = shape.stride();
  space.pack_right({head.k, stride, 1}, end, d);
  for (int64_t i = first; i < end; i += kRowBlock) {
    const int64_t columns = shape.columns_of(i);
    float* p = space.probabilities + (i - first) * space.step;
    space.multiply_seen({head.q + i * stride, stride, 1}, d, p, columns - i, i + 1);
    for (int64_t row = i; row < columns; ++row, p += space.step) {
      ask_for(head.v + row * stride, d);
      ask_for(head.q + row * stride + d, d);  // the next head's
      ask_for(head.k + row * stride + d, d);
      softmax_row(p, row + 1, columns, shape.scale(), head.row_max[row], head.row_sum[row]);
    }
  }
  space.pack_right({head.v, 1, stride}, d, end);
  for (int64_t i = first; i < end; i += kRowBlock) {
    const int64_t columns = shape.columns_of(i);
    space.multiply_masked(space.probabilities + (i - first) * space.step, i + 1, columns, end,
                          head.out + i * shape.width, shape.width, columns - i, d);
  }
}

}  // namespace

void run(HostContext& context, const AttentionForward& call) {
  const AttentionShape shape = AttentionShape::of(call, context);
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
    const AttentionSpace space(context, shape, worker);
    for (int64_t first = 0; first < shape.sequence; first += kProbabilityRows) {
      forward(shape, head, space, first,
              first + kProbabilityRows < shape.sequence ? first + kProbabilityRows : shape.sequence);
    }
  });
}

}  // namespace zp::kernels::ZP_ISA
