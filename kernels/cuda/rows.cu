// What goes row by row: a bias for every column, layer norm, and softmax cross entropy. A warp's lanes are
// the 32 virtual lanes of the contract: lane l takes elements l, l + 32, … in order, then lanes are folded.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/formulas.cuh"

namespace zp::kernels::cuda {
namespace {

constexpr float kEpsilon = 1e-5F;
constexpr int kRows = kThreads / kWarp;  // of a block, a warp each

// The row of this warp; the lanes of a warp agree on it.
__device__ inline int64_t warp_row() { return int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp; }
__device__ inline int lane() { return static_cast<int>(threadIdx.x % kWarp); }

template <class T>
struct AddBiasBody {
  const float* x;
  const T* bias;
  float* y;
  int64_t columns;

  template <int width>
  __device__ void run(int64_t row, int64_t column) const {
    auto sum = read<width>(x + row * columns + column);
    const auto b = read<width>(bias + column);
    for (int j = 0; j < width; ++j) sum.of[j] = sum.of[j] + b.of[j];
    write(y + row * columns + column, sum);
  }
};

template <class T>
struct Norm {
  const float* x;
  const T* gain;
  const T* bias;
  float *y, *mean, *rstd;
  int64_t rows, width;
};

template <class T>
__global__ void __launch_bounds__(kThreads) layer_norm(Norm<T> p) {
  const int64_t row = warp_row();
  if (row >= p.rows) return;
  const float* x = p.x + row * p.width;
  const auto n = static_cast<float>(p.width);
  float sum = 0.0F;
  for (int64_t i = lane(); i < p.width; i += kWarp) sum = sum + x[i];
  const float mean = fold_lanes(sum) / n;
  float squares = 0.0F;
  for (int64_t i = lane(); i < p.width; i += kWarp) {
    const float d = x[i] - mean;
    squares = fmaf(d, d, squares);
  }
  const float rstd = 1.0F / sqrtf(fold_lanes(squares) / n + kEpsilon);
  for (int64_t i = lane(); i < p.width; i += kWarp) {
    p.y[row * p.width + i] = fmaf((x[i] - mean) * rstd, widen(p.gain[i]), widen(p.bias[i]));
  }
  if (lane() == 0) {
    p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

template <class T>
struct NormBackward {
  const float* x;
  const T* gain;
  const float *mean, *rstd, *dy;
  float* dx;
  int64_t rows, width;
  bool accumulate;
};

// dx may lie where dy does: a lane reads an element of dy for the last time before it writes it.
template <class T>
__global__ void __launch_bounds__(kThreads) layer_norm_backward(NormBackward<T> p) {
  const int64_t row = warp_row();
  if (row >= p.rows) return;
  const float* x = p.x + row * p.width;
  const float* dy = p.dy + row * p.width;
  float* dx = p.dx + row * p.width;
  const auto n = static_cast<float>(p.width);
  const float mean = p.mean[row], rstd = p.rstd[row];
  float sum_h = 0.0F, sum_hx = 0.0F;
  for (int64_t i = lane(); i < p.width; i += kWarp) {
    const float h = dy[i] * widen(p.gain[i]);
    const float xhat = (x[i] - mean) * rstd;
    sum_h = sum_h + h;
    sum_hx = sum_hx + h * xhat;
  }
  const float mean_h = fold_lanes(sum_h) / n, mean_hx = fold_lanes(sum_hx) / n;
  for (int64_t i = lane(); i < p.width; i += kWarp) {
    const float h = dy[i] * widen(p.gain[i]);
    const float xhat = (x[i] - mean) * rstd;
    const float d = ((h - mean_h) - xhat * mean_hx) * rstd;
    dx[i] = p.accumulate ? dx[i] + d : d;
  }
}

struct Loss {
  const float* logits;
  const int32_t* targets;
  float *row_max, *row_sum, *row_loss;
  int64_t rows, vocabulary;
};

__global__ void __launch_bounds__(kThreads) cross_entropy(Loss p) {
  const int64_t row = warp_row();
  if (row >= p.rows) return;
  const float* x = p.logits + row * p.vocabulary;
  float largest = x[0];
  for (int64_t i = lane(); i < p.vocabulary; i += kWarp) largest = largest < x[i] ? x[i] : largest;
  const float max = largest_lane(largest) + 0.0F;  // a zero has no sign
  float lane_sum = 0.0F;
  for (int64_t i = lane(); i < p.vocabulary; i += kWarp) lane_sum = lane_sum + exp(x[i] - max);
  const float sum = fold_lanes(lane_sum);
  if (lane() != 0) return;
  p.row_max[row] = max;
  p.row_sum[row] = sum;
  const int32_t target = p.targets[row];
  if (target < 0 || target >= p.vocabulary) return;
  p.row_loss[row] = (log(sum) + max) - x[target];
}

// One warp.
__global__ void mean_loss(const float* row_loss, float* loss, int64_t rows) {
  float sum = 0.0F;
  for (int64_t row = lane(); row < rows; row += kWarp) sum = sum + row_loss[row];
  sum = fold_lanes(sum);
  if (lane() == 0) *loss = sum / static_cast<float>(rows);
}

struct LossBackward {
  float* logits;
  const int32_t* targets;
  const float *row_max, *row_sum;
  int64_t vocabulary;
  float share;
};

// One row a block.
__global__ void __launch_bounds__(kThreads) cross_entropy_backward(LossBackward p) {
  const int64_t row = blockIdx.x;
  float* x = p.logits + row * p.vocabulary;
  const float max = p.row_max[row];
  const float inverse = 1.0F / p.row_sum[row];
  const int64_t target = p.targets[row];
  for (int64_t i = threadIdx.x; i < p.vocabulary; i += kThreads) {
    const float probability = exp(x[i] - max) * inverse;
    x[i] = (i == target ? probability - 1.0F : probability) * p.share;
  }
}

Grid a_warp_for_each(int64_t rows) { return {.x = blocks_for(rows, kRows)}; }

}  // namespace

void run(const Context& context, const AddBias& call) {
  with_type(call.bias.type(), [&]<class T>(T) {
    const AddBiasBody<T> body{input<float>(call.x), input<T>(call.bias), output<float>(call.y), call.columns};
    launch_over_rows(context, call.rows, call.columns,
                     is_aligned(body.x) && is_aligned(body.bias) && is_aligned(body.y), body);
  });
}

void run(const Context& context, const LayerNormForward& call) {
  with_type(call.gain.type(), [&]<class T>(T) {
    const Norm<T> p{
        input<float>(call.x),     input<T>(call.gain),      input<T>(call.bias), output<float>(call.y),
        output<float>(call.mean), output<float>(call.rstd), call.rows,           call.width};
    launch(context, a_warp_for_each(call.rows), layer_norm<T>, p);
  });
}

// Columns before rows: dx may lie where dy does.
void run(const Context& context, const LayerNormBackward& call) {
  run_columns(context, call);
  with_type(call.gain.type(), [&]<class T>(T) {
    const NormBackward<T> p{.x = input<float>(call.x),
                            .gain = input<T>(call.gain),
                            .mean = input<float>(call.mean),
                            .rstd = input<float>(call.rstd),
                            .dy = input<float>(call.dy),
                            .dx = output<float>(call.dx),
                            .rows = call.rows,
                            .width = call.width,
                            .accumulate = call.write == Write::accumulate};
    launch(context, a_warp_for_each(call.rows), layer_norm_backward<T>, p);
  });
}

void run(const Context& context, const CrossEntropyForward& call) {
  look_at_tokens(context, call.targets, call.vocabulary);
  const Loss p{.logits = input<float>(call.logits),
               .targets = input<int32_t>(call.targets),
               .row_max = output<float>(call.row_max),
               .row_sum = output<float>(call.row_sum),
               .row_loss = output<float>(call.row_loss),
               .rows = call.rows,
               .vocabulary = call.vocabulary};
  launch(context, a_warp_for_each(call.rows), cross_entropy, p);
  launch(context, {.threads = kWarp}, mean_loss, p.row_loss, output<float>(call.loss), call.rows);
}

void run(const Context& context, const CrossEntropyBackward& call) {
  look_at_tokens(context, call.targets, call.vocabulary);
  const LossBackward p{.logits = output<float>(call.logits),
                       .targets = input<int32_t>(call.targets),
                       .row_max = input<float>(call.row_max),
                       .row_sum = input<float>(call.row_sum),
                       .vocabulary = call.vocabulary,
                       .share = 1.0F / static_cast<float>(call.rows)};
  launch(context, {.x = call.rows}, cross_entropy_backward, p);
}

}  // namespace zp::kernels::cuda
