// Sums of gradients in the order of the fold (design 3.4), and the division by the number of micro-batches.
// Reads each input once and writes once; the inputs' partial sums stay in registers.
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

template <class Lanes>
ZP_INLINE F32x8 read_input(Lanes lanes, const Input& input, int64_t i) {
  return input.f32 != nullptr ? read(lanes, input.f32 + i) : read(lanes, input.half + i);
}

// A few vectors at a time, so that walking the tree costs little.
template <int vectors>
struct Sums {
  F32x8 of[vectors];
};

// Sum of the inputs j, j + stride, j + 2·stride … The fold adds i + h to i, then folds the first h: read
// backwards, the sum of all is that of the even and that of the odd inputs, and so on down to single inputs.
template <int vectors, class Lanes>
Sums<vectors> sum(Lanes lanes, const Inputs& inputs, int64_t j, int64_t stride, int64_t i) {
  Sums<vectors> out;
  if (j + stride >= inputs.count) {
    for (int k = 0; k < vectors; ++k) out.of[k] = read_input(lanes, inputs.of[j], i + k * kLanes);
    return out;
  }
  const Sums<vectors> low = sum<vectors>(lanes, inputs, j, 2 * stride, i);
  const Sums<vectors> high = sum<vectors>(lanes, inputs, j + stride, 2 * stride, i);
  for (int k = 0; k < vectors; ++k) out.of[k] = low.of[k] + high.of[k];
  return out;
}

template <int vectors, class Lanes, class T>
ZP_INLINE void fold_at(Lanes lanes, const Inputs& inputs, float divisor, T* out, int64_t i) {
  const Sums<vectors> sums = sum<vectors>(lanes, inputs, 0, 1, i);
  for (int k = 0; k < vectors; ++k) {
    const F32x8 x = divisor == 1.0F ? sums.of[k] : sums.of[k] / splat(divisor);
    write(lanes, out + i + k * kLanes, x);
  }
}

}  // namespace

void run(HostContext& context, const Fold& call) {
  const auto count = static_cast<int64_t>(call.inputs.size());
  const int64_t n = call.out.length().n;
  require(count > 0, "fold: there is an input");
  const std::unique_ptr<Input[]> list(new Input[call.inputs.size()]);
  for (int64_t j = 0; j < count; ++j) {
    const View& view = call.inputs[static_cast<size_t>(j)];
    require_length(view, n, "fold: every input is as long as out");
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
      constexpr int kVectors = 4;
      int64_t i = begin;
      for (; i + kVectors * kLanes <= end; i += kVectors * kLanes) {
        fold_at<kVectors>(Whole{}, inputs, divisor, out, i);
      }
      over_lanes(i, end, [=](auto lanes, int64_t at) { fold_at<1>(lanes, inputs, divisor, out, at); });
    });
  });
}

}  // namespace zp::kernels::ZP_ISA
