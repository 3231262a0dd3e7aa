// Layer norm, forward and backward. Rows are independent in forward and for dx; the sums over rows (dgain,
// dbias) are independent by column.
#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

constexpr float kEpsilon = 1e-5F;

struct Shape {
  int64_t rows = 0, width = 0;
};

template <class T>
struct Forward {
  const float* x;
  const T* gain;
  const T* bias;
  float* y;
  float* mean;
  float* rstd;
};

template <class T>
void forward_row(const Forward<T>& p, int64_t width, int64_t row) {
  const float* x = p.x + row * width;
  float* y = p.y + row * width;
  const auto n = static_cast<float>(width);
  const float mean = row_sum(x, width) / n;
  const Floats mean8 = splat(mean);
  const float squares = row_lanes(width, [=](auto lanes, int64_t i, Floats sums) {
    const Floats d = read(lanes, x + i) - mean8;
    return fma(d, d, sums);
  });
  const float rstd = 1.0F / __builtin_sqrtf(squares / n + kEpsilon);
  const Floats rstd8 = splat(rstd);
  over_lanes(0, width, [=, &p](auto lanes, int64_t i) {
    const Floats xhat = (read(lanes, x + i) - mean8) * rstd8;
    write(lanes, y + i, fma(xhat, read(lanes, p.gain + i), read(lanes, p.bias + i)));
  });
  p.mean[row] = mean;
  p.rstd[row] = rstd;
}

template <class T>
struct Backward {
  const float* x;
  const T* gain;
  const float* mean;
  const float* rstd;
  const float* dy;
  float* dx;
  float* dgain;
  float* dbias;
  Write write;
};

template <class T>
void backward_row(const Backward<T>& p, int64_t width, int64_t row) {
  const float* x = p.x + row * width;
  const float* dy = p.dy + row * width;
  const T* gain = p.gain;
  float* dx = p.dx + row * width;
  const auto n = static_cast<float>(width);
  const Floats mean = splat(p.mean[row]), rstd = splat(p.rstd[row]);
  const float sum_h = row_lanes(width, [=](auto lanes, int64_t i, Floats sums) {
    return sums + read(lanes, dy + i) * read(lanes, gain + i);
  });
  const float sum_hx = row_lanes(width, [=](auto lanes, int64_t i, Floats sums) {
    const Floats h = read(lanes, dy + i) * read(lanes, gain + i);
    return sums + h * ((read(lanes, x + i) - mean) * rstd);
  });
  const Floats mean_h = splat(sum_h / n), mean_hx = splat(sum_hx / n);
  const bool accumulate = p.write == Write::accumulate;
  over_lanes(0, width, [=](auto lanes, int64_t i) {
    const Floats h = read(lanes, dy + i) * read(lanes, gain + i);
    const Floats xhat = (read(lanes, x + i) - mean) * rstd;
    const Floats d = ((h - mean_h) - xhat * mean_hx) * rstd;
    write(lanes, dx + i, accumulate ? read(lanes, dx + i) + d : d);
  });
}

template <class T>
void backward_columns(const Backward<T>& p, Shape shape, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) p.dgain[c] = p.dbias[c] = 0.0F;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float* x = p.x + row * shape.width;
    const float* dy = p.dy + row * shape.width;
    const Floats mean = splat(p.mean[row]), rstd = splat(p.rstd[row]);
    over_lanes(begin, end, [=, &p](auto lanes, int64_t c) {
      const Floats d = read(lanes, dy + c);
      const Floats xhat = (read(lanes, x + c) - mean) * rstd;
      write(lanes, p.dgain + c, fma(d, xhat, read(lanes, p.dgain + c)));
      write(lanes, p.dbias + c, read(lanes, p.dbias + c) + d);
    });
  }
}

}  // namespace

void run(HostContext& context, const LayerNormForward& call) {
  const int64_t rows = call.rows, width = call.width;
  require_length(call.x, rows * width, "layer norm: x is rows x width");
  require_length(call.y, rows * width, "layer norm: y is rows x width");
  require_length(call.gain, width, "layer norm: a gain for each column");
  require_length(call.bias, width, "layer norm: a bias for each column");
  require_length(call.mean, rows, "layer norm: a mean for each row");
  require_length(call.rstd, rows, "layer norm: an rstd for each row");
  with_type(call.gain.type(), [&](auto zero) {
    using T = decltype(zero);
    const Forward<T> p{call.x.read<float>(),  call.gain.read<T>(),      call.bias.read<T>(),
                       call.y.write<float>(), call.mean.write<float>(), call.rstd.write<float>()};
    over_rows(context.pool, rows, width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) forward_row(p, width, row);
    });
  });
}

void run(HostContext& context, const LayerNormBackward& call) {
  const Shape shape{call.rows, call.width};
  const int64_t elements = call.rows * call.width;
  require_length(call.x, elements, "layer norm backward: x is rows x width");
  require_length(call.dy, elements, "layer norm backward: dy is rows x width");
  require_length(call.dx, elements, "layer norm backward: dx is rows x width");
  require_length(call.gain, call.width, "layer norm backward: a gain for each column");
  require_length(call.dgain, call.width, "layer norm backward: a dgain for each column");
  require_length(call.dbias, call.width, "layer norm backward: a dbias for each column");
  require_length(call.mean, call.rows, "layer norm backward: a mean for each row");
  require_length(call.rstd, call.rows, "layer norm backward: an rstd for each row");
  with_type(call.gain.type(), [&](auto zero) {
    using T = decltype(zero);
    const Backward<T> p{call.x.read<float>(),      call.gain.read<T>(),       call.mean.read<float>(),
                        call.rstd.read<float>(),   call.dy.read<float>(),     call.dx.write<float>(),
                        call.dgain.write<float>(), call.dbias.write<float>(), call.write};
    // Columns first: dx may lie where dy does.
    over_columns(context.pool, shape.width,
                 [&](int64_t begin, int64_t end) { backward_columns(p, shape, begin, end); });
    over_rows(context.pool, shape.rows, shape.width, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) backward_row(p, shape.width, row);
    });
  });
}

}  // namespace zp::kernels::ZP_ISA
