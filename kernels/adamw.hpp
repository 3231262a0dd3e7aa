// The optimizer's formula, written once for every device and vector width. AdamW (Loshchilov and Hutter, ICLR
// 2019): decoupled weight decay, bias-corrected moments. Order of operations is part of the contract.
#pragma once

#include <cmath>

#include "harness/base/host_device.hpp"

namespace zp {

struct AdamWNumbers {
  float clip = 1.0F;  // multiplies the gradient, never stored
  float lr = 0.0F, beta1 = 0.0F, beta2 = 0.0F, epsilon = 0.0F;
  float decay = 0.0F;                            // 0 for 1-D tensors
  float correction1 = 1.0F, correction2 = 1.0F;  // 1 - beta^t
};

// g = clip·grad; m = fma(beta1, m, (1-beta1)·g); v = fma(beta2, v, (1-beta2)·(g·g));
// master -= lr·fma(decay, master, (m/correction1)/(sqrt(v/correction2) + epsilon)).
// F is float or lanes of floats, with + - * /, fma and sqrt; `splat` makes an F of one float.
template <class F, class Splat>
ZP_HOST_DEVICE inline void adamw_formula(const AdamWNumbers& n, Splat splat, F grad, F& master, F& m, F& v) {
  using std::fma;
  using std::sqrt;
  const F g = splat(n.clip) * grad;
  m = fma(splat(n.beta1), m, splat(1.0F - n.beta1) * g);
  v = fma(splat(n.beta2), v, splat(1.0F - n.beta2) * (g * g));
  const F direction = (m / splat(n.correction1)) / (sqrt(v / splat(n.correction2)) + splat(n.epsilon));
  master = master - splat(n.lr) * fma(splat(n.decay), master, direction);
}

ZP_HOST_DEVICE inline void adamw_element(const AdamWNumbers& n, float grad, float& master, float& m,
                                         float& v) {
  adamw_formula(
      n, [](float x) { return x; }, grad, master, m, v);
}

}  // namespace zp
