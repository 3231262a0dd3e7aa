// Kernels whose every output element depends on one element of each input: GELU, sums, casts, optimizers,
// initial values.
#include "kernels/adamw.hpp"
#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"
#include "kernels/sgd.hpp"
#include "kernels/values.hpp"

namespace zp::kernels::ZP_ISA {
void run(HostContext& context, const GeluForward& call) {
  const int64_t n = call.x.length().n;
  const float* x = call.x.read<float>();
  float* y = call.y.write<float>();
  over_blocks(context.pool, n, kBlock, [=](int64_t begin, int64_t end) {
    over_pairs(begin, end, [=](auto lanes, int64_t i) {
      const auto a = read(lanes, x + i);
      write(lanes, y + i, gelu(a));
    });
  });
}

void run(HostContext& context, const GeluBackward& call) {
  const int64_t n = call.x.length().n;
  const float* x = call.x.read<float>();
  const float* dy = call.dy.read<float>();
  float* dx = call.dx.write<float>();
  over_blocks(context.pool, n, kBlock, [=](int64_t begin, int64_t end) {
    over_pairs(begin, end, [=](auto lanes, int64_t i) {
      const auto a = read(lanes, x + i);
      write(lanes, dx + i, read(lanes, dy + i) * gelu_derivative(a));
    });
  });
}

void run(HostContext& context, const Add& call) {
  const int64_t n = call.a.length().n;
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
    return initial_value(call.init, call.key, static_cast<uint64_t>(call.first + i), call.scale);
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
          eighths[l] = zp::synthetic_gradient(call.key, static_cast<uint64_t>(call.first + i + l));
        }
        write(lanes, grads + i, load(eighths));
      });
    });
  });
}

}  // namespace zp::kernels::ZP_ISA
