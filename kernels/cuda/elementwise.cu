// Kernels whose every output element depends on one element of each input: GELU, sums, casts, optimizers,
// initial values.
#include "kernels/adamw.hpp"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/formulas.cuh"
#include "kernels/sgd.hpp"
#include "kernels/values.hpp"

namespace zp::kernels::cuda {
namespace {

struct GeluBody {
  const float* x;
  float* y;

  template <int width>
  __device__ void run(int64_t i) const {
    auto a = read<width>(x + i);
    for (int j = 0; j < width; ++j) a.of[j] = gelu(Floats{a.of[j]}).v;
    write(y + i, a);
  }
};

struct GeluBackwardBody {
  const float *x, *dy;
  float* dx;

  template <int width>
  __device__ void run(int64_t i) const {
    const auto a = read<width>(x + i);
    auto d = read<width>(dy + i);
    for (int j = 0; j < width; ++j) d.of[j] = d.of[j] * gelu_derivative(Floats{a.of[j]}).v;
    write(dx + i, d);
  }
};

struct AddBody {
  const float *a, *b;
  float* y;

  template <int width>
  __device__ void run(int64_t i) const {
    auto sum = read<width>(a + i);
    const auto other = read<width>(b + i);
    for (int j = 0; j < width; ++j) sum.of[j] = sum.of[j] + other.of[j];
    write(y + i, sum);
  }
};

template <class From, class To>
struct CastBody {
  const From* from;
  To* to;

  template <int width>
  __device__ void run(int64_t i) const {
    write(to + i, read<width>(from + i));
  }
};

template <class T>
struct AdamWBody {
  AdamWNumbers numbers;
  const T* grads;
  float *master, *m, *v;

  template <int width>
  __device__ void run(int64_t i) const {
    const auto g = read<width>(grads + i);
    auto new_master = read<width>(master + i), new_m = read<width>(m + i), new_v = read<width>(v + i);
    for (int j = 0; j < width; ++j) {
      adamw_element(numbers, g.of[j], new_master.of[j], new_m.of[j], new_v.of[j]);
    }
    write(master + i, new_master);
    write(m + i, new_m);
    write(v + i, new_v);
  }
};

template <class T>
struct SgdBody {
  SgdNumbers numbers;
  const T* grads;
  float *master, *m;

  template <int width>
  __device__ void run(int64_t i) const {
    const auto g = read<width>(grads + i);
    auto new_master = read<width>(master + i), new_m = read<width>(m + i);
    for (int j = 0; j < width; ++j) sgd_element(numbers, g.of[j], new_master.of[j], new_m.of[j]);
    write(master + i, new_master);
    write(m + i, new_m);
  }
};

template <class T>
struct InitializeBody {
  T* x;
  Init init;
  uint64_t key;
  int64_t first;
  float scale;

  template <int width>
  __device__ void run(int64_t i) const {
    Vector<float, width> value;
    for (int j = 0; j < width; ++j) {
      value.of[j] = initial_value(init, key, static_cast<uint64_t>(first + i + j), scale);
    }
    write(x + i, value);
  }
};

template <class T>
struct SyntheticGradientBody {
  T* grads;
  uint64_t key;
  int64_t first;

  template <int width>
  __device__ void run(int64_t i) const {
    Vector<float, width> value;
    for (int j = 0; j < width; ++j) {
      value.of[j] = synthetic_gradient(key, static_cast<uint64_t>(first + i + j));
    }
    write(grads + i, value);
  }
};

}  // namespace

void run(const Context& context, const GeluForward& call) {
  const GeluBody body{input<float>(call.x), output<float>(call.y)};
  launch_over_elements(context, call.x.length().n, is_aligned(body.x) && is_aligned(body.y), body);
}

void run(const Context& context, const GeluBackward& call) {
  const GeluBackwardBody body{input<float>(call.x), input<float>(call.dy), output<float>(call.dx)};
  launch_over_elements(context, call.x.length().n,
                       is_aligned(body.x) && is_aligned(body.dy) && is_aligned(body.dx), body);
}

void run(const Context& context, const Add& call) {
  const AddBody body{input<float>(call.a), input<float>(call.b), output<float>(call.y)};
  launch_over_elements(context, call.a.length().n,
                       is_aligned(body.a) && is_aligned(body.b) && is_aligned(body.y), body);
}

void run(const Context& context, const Cast& call) {
  with_type(call.from.type(), [&]<class From>(From) {
    with_type(call.to.type(), [&]<class To>(To) {
      const CastBody<From, To> body{input<From>(call.from), output<To>(call.to)};
      launch_over_elements(context, call.from.length().n, is_aligned(body.from) && is_aligned(body.to), body);
    });
  });
}

void run(const Context& context, const AdamW& call) {
  AdamWNumbers numbers;
  numbers.clip = call.clip;
  numbers.lr = call.lr;
  numbers.beta1 = call.beta1;
  numbers.beta2 = call.beta2;
  numbers.epsilon = call.epsilon;
  numbers.decay = call.decay;
  numbers.correction1 = call.correction1;
  numbers.correction2 = call.correction2;
  with_type(call.grads.type(), [&]<class T>(T) {
    const AdamWBody<T> body{numbers, input<T>(call.grads), output<float>(call.master), output<float>(call.m),
                            output<float>(call.v)};
    launch_over_elements(
        context, call.grads.length().n,
        is_aligned(body.grads) && is_aligned(body.master) && is_aligned(body.m) && is_aligned(body.v), body);
  });
}

void run(const Context& context, const Sgd& call) {
  const SgdNumbers numbers{.clip = call.clip, .lr = call.lr, .momentum = call.momentum, .decay = call.decay};
  with_type(call.grads.type(), [&]<class T>(T) {
    const SgdBody<T> body{numbers, input<T>(call.grads), output<float>(call.master), output<float>(call.m)};
    launch_over_elements(context, call.grads.length().n,
                         is_aligned(body.grads) && is_aligned(body.master) && is_aligned(body.m), body);
  });
}

void run(const Context& context, const Initialize& call) {
  with_type(call.x.type(), [&]<class T>(T) {
    const InitializeBody<T> body{output<T>(call.x), call.init, call.key, call.first, call.scale};
    launch_over_elements(context, call.x.length().n, is_aligned(body.x), body);
  });
}

void run(const Context& context, const SyntheticGradient& call) {
  with_type(call.grads.type(), [&]<class T>(T) {
    const SyntheticGradientBody<T> body{output<T>(call.grads), call.key, call.first};
    launch_over_elements(context, call.grads.length().n, is_aligned(body.grads), body);
  });
}

}  // namespace zp::kernels::cuda
