// Sums of gradients in the order of the fold (design 3.4), and the division by the number of micro-batches.
// Reads each input once and writes once; partial sums stay in the first-level cache, one tile of elements at
// a time.
#include <memory>

#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

struct Input {
  const float* f32 = nullptr;  // one of the two
  const bf16* half = nullptr;
};

struct Inputs {
  const Input* of = nullptr;
  int64_t count = 0;
};

constexpr int64_t kFoldTile = 512;

// use(pointer) to element `at` of the input, in its own type.
template <class Use>
ZP_INLINE void with_input(const Input& input, int64_t at, Use use) {
  if (input.f32 != nullptr) {
    use(input.f32 + at);
  } else {
    use(input.half + at);
  }
}

void copy(float* tile, int64_t n, const Input& input, int64_t at) {
  with_input(input, at, [=](const auto* x) {
    over_lanes(0, n, [=](auto lanes, int64_t i) { write(lanes, tile + i, read(lanes, x + i)); });
  });
}

void add(float* tile, int64_t n, const Input& input, int64_t at) {
  with_input(input, at, [=](const auto* x) {
    over_lanes(0, n, [=](auto lanes, int64_t i) {
      write(lanes, tile + i, read(lanes, tile + i) + read(lanes, x + i));
    });
  });
}

// As many inputs of one type are added in registers.
constexpr int64_t kAtOnce = 8;

// Of `count` inputs, the sum of those at j, j + stride …: see sum_into.
template <int64_t count, int64_t j, int64_t stride, class Lanes, class T>
ZP_INLINE auto sum_at(Lanes lanes, const T* const (&x)[count], int64_t i) {
  if constexpr (j + stride >= count) {
    return read(lanes, x[j] + i);
  } else {
    return sum_at<count, j, 2 * stride>(lanes, x, i) + sum_at<count, j + stride, 2 * stride>(lanes, x, i);
  }
}

// tile = sum of 2 ≤ how_many ≤ count inputs of one type.
template <int64_t count, class T>
void sum_at_once(float* tile, int64_t n, const T* const* inputs, int64_t how_many) {
  if constexpr (count > 2) {
    if (how_many < count) return sum_at_once<count - 1>(tile, n, inputs, how_many);
  }
  const T* x[count];
  for (int64_t j = 0; j < count; ++j) x[j] = inputs[j];
  over_lanes(0, n, [&](auto lanes, int64_t i) { write(lanes, tile + i, sum_at<count, 0, 1>(lanes, x, i)); });
}

// The inputs j, j + stride …, where they are 2 to kAtOnce of one type; false otherwise.
bool sum_few(float* tile, int64_t n, const Inputs& inputs, int64_t at, int64_t j, int64_t stride) {
  const int64_t count = (inputs.count - j + stride - 1) / stride;
  if (count > kAtOnce) return false;
  const float* f32[kAtOnce] = {};
  const bf16* half[kAtOnce] = {};
  int64_t halves = 0;
  for (int64_t k = 0; k < count; ++k) {
    const Input& input = inputs.of[j + k * stride];
    halves += input.f32 == nullptr ? 1 : 0;
    f32[k] = input.f32 + (input.f32 == nullptr ? 0 : at);
    half[k] = input.half + (input.half == nullptr ? 0 : at);
  }
  if (halves == 0) {
    sum_at_once<kAtOnce>(tile, n, f32, count);
  } else if (halves == count) {
    sum_at_once<kAtOnce>(tile, n, half, count);
  } else {
    return false;
  }
  return true;
}

// tile = sum of the inputs j, j + stride, j + 2·stride … over n elements from `at`. The fold adds i + h to i,
// then folds the first h: read backwards, the sum of all is that of the even plus that of the odd inputs, and
// so on down to single inputs.
void sum_into(float* tile, int64_t n, const Inputs& inputs, int64_t at, int64_t j, int64_t stride) {
  const int64_t high = j + stride;
  if (high >= inputs.count) {
    copy(tile, n, inputs.of[j], at);
    return;
  }
  if (sum_few(tile, n, inputs, at, j, stride)) return;
  sum_into(tile, n, inputs, at, j, 2 * stride);
  if (high + 2 * stride >= inputs.count) {
    add(tile, n, inputs.of[high], at);
    return;
  }
  float other[kFoldTile];
  sum_into(other, n, inputs, at, high, 2 * stride);
  add(tile, n, {.f32 = other, .half = nullptr}, 0);
}

// Every input has been read before the first element is written, so `out` may be one of them.
template <class T>
void fold_tile(const Inputs& inputs, float divisor, T* out, int64_t begin, int64_t n) {
  float tile[kFoldTile];
  sum_into(tile, n, inputs, begin, 0, 1);
  const float* sums = tile;
  if (divisor == 1.0F) {
    over_lanes(0, n, [=](auto lanes, int64_t i) { write(lanes, out + begin + i, read(lanes, sums + i)); });
  } else {
    const Floats by = splat(divisor);
    over_lanes(0, n,
               [=](auto lanes, int64_t i) { write(lanes, out + begin + i, read(lanes, sums + i) / by); });
  }
}

}  // namespace

void run(HostContext& context, const Fold& call) {
  const auto count = static_cast<int64_t>(call.inputs.size());
  const int64_t n = call.out.length().n;
  if (call.inputs.front().type() == Type::i64) {
    run_integer_fold(context, call);
    return;
  }
  const std::unique_ptr<Input[]> list(new Input[call.inputs.size()]);
  for (int64_t j = 0; j < count; ++j) {
    const View& view = call.inputs[static_cast<size_t>(j)];
    if (view.type() == Type::f32) {
      list[static_cast<size_t>(j)].f32 = view.read<float>();
    } else {
      list[static_cast<size_t>(j)].half = view.read<bf16>();
    }
  }
  const Inputs inputs{list.get(), count};
  const float divisor = call.divisor;
  with_type(call.out.type(), [&](auto zero) {
    auto* out = call.out.write<decltype(zero)>();
    over_blocks(context.pool, n, kBlock, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kFoldTile) {
        fold_tile(inputs, divisor, out, i, i + kFoldTile < end ? kFoldTile : end - i);
      }
    });
  });
}

}  // namespace zp::kernels::ZP_ISA
