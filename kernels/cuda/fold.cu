// Sums of gradients in the order of the fold (design 3.4), and the division by the number of micro-batches;
// the same in fixed point, where sums are exact; and numbers into fixed point.
#include "kernels/arguments.hpp"
#include "kernels/cuda/elements.cuh"
#include "kernels/fixed.hpp"

namespace zp::kernels::cuda {
namespace {

// As many inputs of one type are added in registers.
constexpr int kAtOnce = 8;
// As many inputs are given to a kernel among its arguments.
constexpr int kMostInputs = 1024;
constexpr int kDeepest = 11;  // heights of a tree with as many leaves

template <class T>
struct FewInputs {
  const T* of[kAtOnce];
};

// Of `count` inputs, the sum of those at j, j + stride …: read backwards, the fold is the sum of the even
// plus that of the odd inputs, and so on down to single inputs.
template <int width, int count, int j, int stride, class T>
__device__ inline Vector<float, width> sum_at(const FewInputs<T>& inputs, int64_t i) {
  if constexpr (j + stride >= count) {
    return read<width>(inputs.of[j] + i);
  } else {
    auto sum = sum_at<width, count, j, 2 * stride>(inputs, i);
    const auto other = sum_at<width, count, j + stride, 2 * stride>(inputs, i);
    for (int k = 0; k < width; ++k) sum.of[k] = sum.of[k] + other.of[k];
    return sum;
  }
}

template <int width, int count, class T>
__device__ inline Vector<float, width> sum_of(const FewInputs<T>& inputs, int how_many, int64_t i) {
  if constexpr (count > 1) {
    if (how_many < count) return sum_of<width, count - 1>(inputs, how_many, i);
  }
  return sum_at<width, count, 0, 1>(inputs, i);
}

// Every input has been read before the element is written, so `out` may be one of them.
template <class T, class Out>
struct FewBody {
  FewInputs<T> inputs;
  int count;
  float divisor;
  Out* out;

  template <int width>
  __device__ void run(int64_t i) const {
    auto sum = sum_of<width, kAtOnce>(inputs, count, i);
    if (divisor != 1.0F) {
      for (int k = 0; k < width; ++k) sum.of[k] = sum.of[k] / divisor;
    }
    write(out + i, sum);
  }
};

// Many inputs, or of both types.
struct Input {
  const float* f32;  // one of the two
  const bf16* half;

  __device__ float at(int64_t i) const { return f32 != nullptr ? f32[i] : widen(half[i]); }
};

// Leaves of the fold's tree from left to right are the inputs in bit-reversed order. A sum waits until its
// right neighbour of the same height is complete, as the digits of a counter carry; a neighbour without any
// input leaves it as it is.
template <class Out>
struct ManyBody {
  Input inputs[kMostInputs];
  int count, levels;  // 2^levels ≥ count
  float divisor;
  Out* out;

  __device__ void run(int64_t i) const {
    float waiting[kDeepest];
    for (int leaf = 0; leaf < 1 << levels; ++leaf) {
      const int input = lowest_input(leaf, levels);
      float sum = input < count ? inputs[input].at(i) : 0.0F;
      int height = 0;
      for (; (leaf >> height & 1) != 0; ++height) {  // a right neighbour
        const bool exists = lowest_input(leaf >> height, levels - height) < count;
        sum = exists ? waiting[height] + sum : waiting[height];
      }
      waiting[height] = sum;
    }
    Vector<float, 1> all{waiting[levels]};
    if (divisor != 1.0F) all.of[0] = all.of[0] / divisor;
    write(out + i, all);
  }

  // Of the inputs below a node, counted from the left among the 2^bits of its height: a bit-reversed number.
  __device__ static int lowest_input(int node, int bits) {
    int input = 0;
    for (int bit = 0; bit < bits; ++bit) input |= (node >> bit & 1) << (bits - 1 - bit);
    return input;
  }
};

struct FixedInputs {
  const int64_t* of[kMostInputs];
  int count;

  // In any order. Every input has been read before the element is written, so `out` may be one of them.
  __device__ int64_t sum(int64_t i) const {
    int64_t sum = of[0][i];
    for (int j = 1; j < count; ++j) sum = sum_fixed(sum, of[j][i]);
    return sum;
  }
};

struct FixedBody {
  FixedInputs inputs;
  int64_t* out;

  __device__ void run(int64_t i) const { out[i] = inputs.sum(i); }
};

struct FromFixedBody {
  FixedInputs inputs;
  float* out;
  float divisor;

  __device__ void run(int64_t i) const { out[i] = from_fixed(inputs.sum(i)) / divisor; }
};

struct ToFixedBody {
  const float* from;
  int64_t* to;
  double terms;
  bool adds;
  unsigned long long* refused;

  __device__ void run(int64_t i) const {
    if (!fits_fixed(from[i], terms)) {
      atomicMin(refused, static_cast<unsigned long long>(i));
    } else {
      to[i] = adds ? sum_fixed(to[i], to_fixed(from[i])) : to_fixed(from[i]);
    }
  }
};

template <class T>
bool all_are(const Fold& call) {
  for (const View& view : call.inputs) {
    if (view.type() != type_of<T>) return false;
  }
  return true;
}

template <class T, class Out>
void fold_few(const Context& context, const Fold& call, Out* out) {
  FewBody<T, Out> body{
      .inputs = {}, .count = static_cast<int>(call.inputs.size()), .divisor = call.divisor, .out = out};
  bool aligned = is_aligned(out);
  for (size_t j = 0; j < call.inputs.size(); ++j) {
    body.inputs.of[j] = input<T>(call.inputs[j]);
    aligned = aligned && is_aligned(body.inputs.of[j]);
  }
  launch_over_elements(context, call.out.length().n, aligned, body);
}

template <class Out>
void fold_many(const Context& context, const Fold& call, Out* out) {
  ManyBody<Out> body{.inputs = {},
                     .count = static_cast<int>(call.inputs.size()),
                     .levels = 0,
                     .divisor = call.divisor,
                     .out = out};
  while (1 << body.levels < body.count) ++body.levels;
  for (size_t j = 0; j < call.inputs.size(); ++j) {
    const View& view = call.inputs[j];
    if (view.type() == Type::f32) {
      body.inputs[j].f32 = input<float>(view);
    } else {
      body.inputs[j].half = input<bf16>(view);
    }
  }
  launch_over_each(context, call.out.length().n, body);
}

}  // namespace

void run(const Context& context, const Fold& call) {
  require(call.inputs.size() <= static_cast<size_t>(kMostInputs), "fold: a kernel takes at most 1024 inputs");
  if (call.inputs.front().type() == Type::i64) return run_integer_fold(context, call);
  const bool few = call.inputs.size() <= static_cast<size_t>(kAtOnce);
  with_type(call.out.type(), [&]<class Out>(Out) {
    auto* out = output<Out>(call.out);
    if (few && all_are<float>(call)) {
      fold_few<float>(context, call, out);
    } else if (few && all_are<bf16>(call)) {
      fold_few<bf16>(context, call, out);
    } else {
      fold_many(context, call, out);
    }
  });
}

void run_integer_fold(const Context& context, const Fold& call) {
  FixedInputs inputs{.of = {}, .count = static_cast<int>(call.inputs.size())};
  for (size_t j = 0; j < call.inputs.size(); ++j) inputs.of[j] = input<int64_t>(call.inputs[j]);
  if (call.out.type() == Type::i64) {
    launch_over_each(context, call.out.length().n, FixedBody{inputs, output<int64_t>(call.out)});
  } else {
    launch_over_each(context, call.out.length().n,
                     FromFixedBody{inputs, output<float>(call.out), call.divisor});
  }
}

// The first element that is refused is named, with its value, once the stream has come so far.
void run(const Context& context, const ToFixed& call) {
  context.begin_hand_over();
  const ToFixedBody body{.from = input<float>(call.from),
                         .to = output<int64_t>(call.to),
                         .terms = static_cast<double>(call.terms),
                         .adds = call.write == Write::accumulate,
                         .refused = &context.handed->refused};
  launch_over_each(context, call.from.length().n, body);
  const unsigned long long refused = context.hand_over().refused;
  if (refused == kNoneRefused) return;
  float value = 0.0F;
  check(cudaMemcpyAsync(&value, body.from + refused, sizeof value, cudaMemcpyDefault, context.stream));
  context.finish();
  fail_to_fixed(static_cast<int64_t>(refused), value, call.terms);
}

}  // namespace zp::kernels::cuda
