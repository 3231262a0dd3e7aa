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

// Rows taken together: while one waits for its fold the others go on, and they share gain and bias.
constexpr int64_t kNormRows = 4;

template <int64_t rows, class T>
void forward_rows(const Forward<T>& p, int64_t width, int64_t row) {
  const float* x = p.x + row * width;
  float* y = p.y + row * width;
  const auto n = static_cast<float>(width);
  Floats mean[rows], rstd[rows];
  for (int64_t r = 0; r < rows; ++r) {
    p.mean[row + r] = row_sum(x + r * width, width) / n;
    mean[r] = splat(p.mean[row + r]);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const float squares = row_lanes(width, [=, mean = mean[r]](auto lanes, int64_t i, auto sums) {
      const auto d = read(lanes, x + r * width + i) - mean;
      return fma(d, d, sums);
    });
    p.rstd[row + r] = 1.0F / __builtin_sqrtf(squares / n + kEpsilon);
    rstd[r] = splat(p.rstd[row + r]);
  }
  over_lanes(0, width, [=, gains = p.gain, biases = p.bias](auto lanes, int64_t i) {
    const Floats gain = read(lanes, gains + i), bias = read(lanes, biases + i);
    for (int64_t r = 0; r < rows; ++r) {
      const Floats xhat = (read(lanes, x + r * width + i) - mean[r]) * rstd[r];
      write(lanes, y + r * width + i, fma(xhat, gain, bias));
    }
  });
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

template <int64_t rows, class T>
void backward_rows(const Backward<T>& p, int64_t width, int64_t row) {
  const float* x = p.x + row * width;
  const float* dy = p.dy + row * width;
  const T* gain = p.gain;
  float* dx = p.dx + row * width;
  const auto n = static_cast<float>(width);
  Floats mean_h[rows], mean_hx[rows];
  for (int64_t r = 0; r < rows; ++r) {
    const Floats mean = splat(p.mean[row + r]), rstd = splat(p.rstd[row + r]);
    const Twice<float> all = row_lanes_twice(width, [=](auto lanes, int64_t i, Twice<Floats> sums) {
      const Floats h = read(lanes, dy + r * width + i) * read(lanes, gain + i);
      const Floats xhat = (read(lanes, x + r * width + i) - mean) * rstd;
      return sums + Twice<Floats>{h, h * xhat};
    });
    mean_h[r] = splat(all.one / n);
    mean_hx[r] = splat(all.two / n);
  }
  const bool accumulate = p.write == Write::accumulate;
  for (int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    const Floats mean = splat(p.mean[row + r]), rstd = splat(p.rstd[row + r]);
    over_lanes(0, width, [=, h_mean = mean_h[r], hx_mean = mean_hx[r]](auto lanes, int64_t i) {
      const Floats h = read(lanes, dy + i) * read(lanes, gain + i);
      const Floats xhat = (read(lanes, x + i) - mean) * rstd;
      const Floats d = ((h - h_mean) - xhat * hx_mean) * rstd;
      write(lanes, dx + i, accumulate ? read(lanes, dx + i) + d : d);
    });
  }
}

// What `rows` rows add to columns begin … end-1 of dgain and dbias.
template <int64_t rows, class T>
void backward_columns(const Backward<T>& p, int64_t width, int64_t row, int64_t begin, int64_t end) {
  const float* x = p.x + row * width;
  const float* dy = p.dy + row * width;
  Floats mean[rows], rstd[rows];
  for (int64_t r = 0; r < rows; ++r) {
    mean[r] = splat(p.mean[row + r]);
    rstd[r] = splat(p.rstd[row + r]);
  }
  over_lanes(begin, end, [=, dgains = p.dgain, dbiases = p.dbias](auto lanes, int64_t c) {
    Floats dgain = read(lanes, dgains + c), dbias = read(lanes, dbiases + c);
    for (int64_t r = 0; r < rows; ++r) {
      const Floats d = read(lanes, dy + r * width + c);
      dgain = fma(d, (read(lanes, x + r * width + c) - mean[r]) * rstd[r], dgain);
      dbias = dbias + d;
    }
    write(lanes, dgains + c, dgain);
    write(lanes, dbiases + c, dbias);
  });
}

}  // namespace

void run(HostContext& context, const LayerNormForward& call) {
  const int64_t rows = call.rows, width = call.width;
  with_type(call.gain.type(), [&](auto zero) {
    using T = decltype(zero);
    const Forward<T> p{call.x.read<float>(),  call.gain.read<T>(),      call.bias.read<T>(),
                       call.y.write<float>(), call.mean.write<float>(), call.rstd.write<float>()};
    over_rows(context.pool, rows, width, [&](int64_t begin, int64_t end) {
      in_groups<kNormRows>(begin, end, [&](auto count, int64_t row) { forward_rows<count>(p, width, row); });
    });
  });
}

void run(HostContext& context, const LayerNormBackward& call) {
  const Shape shape{call.rows, call.width};
  const bool frozen = call.dgain.empty() && call.dbias.empty();
  with_type(call.gain.type(), [&](auto zero) {
    using T = decltype(zero);
    const Backward<T> p{call.x.read<float>(),      call.gain.read<T>(),       call.mean.read<float>(),
                        call.rstd.read<float>(),   call.dy.read<float>(),     call.dx.write<float>(),
                        call.dgain.write<float>(), call.dbias.write<float>(), call.write};
    const auto columns = [&](int64_t first, int64_t last, int64_t begin, int64_t end) {
      in_groups<kNormRows>(first, last, [&](auto count, int64_t row) {
        backward_columns<count>(p, shape.width, row, begin, end);
      });
    };
    for (int64_t c = 0; c < shape.width && !frozen; ++c) p.dgain[c] = p.dbias[c] = 0.0F;
    // Columns before rows: dx may lie where dy does. Alone, a thread does both while the rows are near.
    const bool alone = context.pool.threads() == 1;
    if (!alone && !frozen) {
      over_columns(context.pool, shape.width,
                   [&](int64_t begin, int64_t end) { columns(0, shape.rows, begin, end); });
    }
    over_rows(context.pool, shape.rows, shape.width, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end; first += kNormRows) {
        const int64_t last = first + kNormRows < end ? first + kNormRows : end;
        if (alone && !frozen) columns(first, last, 0, shape.width);
        in_groups<kNormRows>(first, last,
                             [&](auto count, int64_t row) { backward_rows<count>(p, shape.width, row); });
      }
    });
  });
}

}  // namespace zp::kernels::ZP_ISA
