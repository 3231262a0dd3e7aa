// Kernels whose every output element depends on one element of each input: GELU, sums, casts, optimizers,
// initial values.
#include "harness/base/random.hpp"
#include "kernels/adamw.hpp"
#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"
#include "kernels/sgd.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

// tanh(sqrt(2/π)·(x + 0.044715·x³))
template <class F>
ZP_INLINE F gelu_tanh(F x) {
  return tanh(fma((x * x) * x, splat(0.044715F), x) * splat(0.7978846F));
}

}  // namespace

void run(HostContext& context, const GeluForward& call) {
  const int64_t n = call.x.length().n;
  require_length(call.y, n, "gelu: y is as long as x");
  const float* x = call.x.read<float>();
  float* y = call.y.write<float>();
  over_blocks(context.pool, n, kBlock, [=](int64_t begin, int64_t end) {
    over_pairs(begin, end, [=](auto lanes, int64_t i) {
      const auto a = read(lanes, x + i);
      write(lanes, y + i, (splat(0.5F) * a) * (splat(1.0F) + gelu_tanh(a)));
    });
  });
}

void run(HostContext& context, const GeluBackward& call) {
  const int64_t n = call.x.length().n;
  require_length(call.dy, n, "gelu backward: dy is as long as x");
  require_length(call.dx, n, "gelu backward: dx is as long as x");
  const float* x = call.x.read<float>();
  const float* dy = call.dy.read<float>();
  float* dx = call.dx.write<float>();
  over_blocks(context.pool, n, kBlock, [=](int64_t begin, int64_t end) {
    over_pairs(begin, end, [=](auto lanes, int64_t i) {
      const auto a = read(lanes, x + i);
      const auto t = gelu_tanh(a);
      const auto slope = fma(splat(0.134145F) * a, a, splat(1.0F)) * splat(0.7978846F);
      const auto steep = (splat(0.5F) * a) * fma(splat(0.0F) - t, t, splat(1.0F));
      const auto derivative = fma(steep, slope, splat(0.5F) * (splat(1.0F) + t));
      write(lanes, dx + i, read(lanes, dy + i) * derivative);
    });
  });
}

void run(HostContext& context, const Add& call) {
  const int64_t n = call.a.length().n;
  require_length(call.b, n, "add: b is as long as a");
  require_length(call.y, n, "add: y is as long as a");
  const float* a = call.a.read<float>();
  const float* b = call.b.read<float>();
  float* y = call.y.write<float>();
  over_blocks(context.pool, n, kBlock, [=](int64_t begin, int64_t end) {
    over_lanes(begin, end,
               [=](auto lanes, int64_t i) { write(lanes, y + i, read(lanes, a + i) + read(lanes, b + i)); });
  });
}

void run(HostContext& context, const Cast& call) {
  const int64_t n = call.from.length().n;
  require_length(call.to, n, "cast: to is as long as from");
  with_type(call.from.type(), [&](auto from_zero) {
    with_type(call.to.type(), [&](auto to_zero) {
      const auto* from = call.from.read<decltype(from_zero)>();
      auto* to = call.to.write<decltype(to_zero)>();
      over_blocks(context.pool, n, kBlock, [=](int64_t begin, int64_t end) {
        over_lanes(begin, end, [=](auto lanes, int64_t i) { write(lanes, to + i, read(lanes, from + i)); });
      });
    });
  });
}

void run(HostContext& context, const AdamW& call) {
  const int64_t n = call.grads.length().n;
  require_length(call.master, n, "adamw: master is as long as grads");
  require_length(call.m, n, "adamw: m is as long as grads");
  require_length(call.v, n, "adamw: v is as long as grads");
  AdamWNumbers numbers;
  numbers.clip = call.clip;
  numbers.lr = call.lr;
  numbers.beta1 = call.beta1;
  numbers.beta2 = call.beta2;
  numbers.epsilon = call.epsilon;
  numbers.decay = call.decay;
  numbers.correction1 = call.correction1;
  numbers.correction2 = call.correction2;
  with_type(call.grads.type(), [&](auto zero) {
    const auto* grads = call.grads.read<decltype(zero)>();
    float* master = call.master.write<float>();
    float* m = call.m.write<float>();
    float* v = call.v.write<float>();
    over_blocks(context.pool, n, kBlock, [=](int64_t begin, int64_t end) {
      over_lanes(begin, end, [=](auto lanes, int64_t i) {
        Floats new_master = read(lanes, master + i), new_m = read(lanes, m + i), new_v = read(lanes, v + i);
        const auto broadcast = [](float x) { return splat(x); };
        adamw_formula(numbers, broadcast, read(lanes, grads + i), new_master, new_m, new_v);
        write(lanes, master + i, new_master);
        write(lanes, m + i, new_m);
        write(lanes, v + i, new_v);
      });
    });
  });
}

void run(HostContext& context, const Sgd& call) {
  const int64_t n = call.grads.length().n;
  require_length(call.master, n, "sgd: master is as long as grads");
  require_length(call.m, n, "sgd: m is as long as grads");
  const SgdNumbers numbers{.clip = call.clip, .lr = call.lr, .momentum = call.momentum, .decay = call.decay};
  with_type(call.grads.type(), [&](auto zero) {
    const auto* grads = call.grads.read<decltype(zero)>();
    float* master = call.master.write<float>();
    float* m = call.m.write<float>();
    over_blocks(context.pool, n, kBlock, [=](int64_t begin, int64_t end) {
      over_lanes(begin, end, [=](auto lanes, int64_t i) {
        Floats new_master = read(lanes, master + i), new_m = read(lanes, m + i);
        const auto broadcast = [](float x) { return splat(x); };
        sgd_formula(numbers, broadcast, read(lanes, grads + i), new_master, new_m);
        write(lanes, master + i, new_master);
        write(lanes, m + i, new_m);
      });
    });
  });
}

void run(HostContext& context, const Initialize& call) {
  const int64_t n = call.x.length().n;
  const auto value = [&call](int64_t i) {
    if (call.init != Init::normal) return call.init == Init::ones ? 1.0F : 0.0F;
    return random_normal(call.key, static_cast<uint64_t>(call.first + i), call.scale);
  };
  const auto fill = [&](const auto& put) {
    over_blocks(context.pool, n, kBlock, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) put(i, value(i));
    });
  };
  if (call.x.type() == Type::bf16) {
    bf16* x = call.x.write<bf16>();
    fill([x](int64_t i, float v) { x[i] = zp::round_to_bf16(v); });
  } else {
    float* x = call.x.write<float>();
    fill([x](int64_t i, float v) { x[i] = v; });
  }
}

void run(HostContext& context, const SyntheticGradient& call) {
  const int64_t n = call.grads.length().n;
  with_type(call.grads.type(), [&](auto zero) {
    auto* grads = call.grads.write<decltype(zero)>();
    over_blocks(context.pool, n, kBlock, [=, &call](int64_t begin, int64_t end) {
      over_lanes(begin, end, [=, &call](auto lanes, int64_t i) {
        float eighths[kLanes];
        for (int64_t l = 0; l < kLanes; ++l) {
          const uint64_t bits = random_bits(call.key, static_cast<uint64_t>(call.first + i + l));
          eighths[l] = static_cast<float>(static_cast<int64_t>(((bits >> 32) * 17) >> 32) - 8) * 0.125F;
        }
        write(lanes, grads + i, load(eighths));
      });
    });
  });
}

}  // namespace zp::kernels::ZP_ISA
