// SGD with momentum, written once for every device and vector width. Order of operations is part of the
// contract.
#pragma once

#include <cmath>

#include "harness/base/host_device.hpp"

namespace zp {

struct SgdNumbers {
  float clip = 1.0F;  // multiplies the gradient, never stored
  float lr = 0.0F, momentum = 0.0F;
  float decay = 0.0F;  // 0 for 1-D tensors
};

// g = fma(decay, master, clip·grad); m = fma(momentum, m, g); master -= lr·m.
// Decay is part of the gradient, and there is no dampening: m starts at +0, so the first step is m = g, as in
// PyTorch's SGD. F is float or lanes of floats, with + - * and fma; `splat` makes an F of one float.
template <class F, class Splat>
ZP_HOST_DEVICE inline void sgd_formula(const SgdNumbers& n, Splat splat, F grad, F& master, F& m) {
  using std::fma;
  const F g = fma(splat(n.decay), master, splat(n.clip) * grad);
  m = fma(splat(n.momentum), m, g);
  master = master - splat(n.lr) * m;
}

ZP_HOST_DEVICE inline void sgd_element(const SgdNumbers& n, float grad, float& master, float& m) {
  sgd_formula(
      n, [](float x) { return x; }, grad, master, m);
}

}  // namespace zp
