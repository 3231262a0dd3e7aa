// Values that depend on (key, element) alone: what a tensor starts from, and the synthetic model's gradient.
// For host and GPU alike.
#pragma once

#include <cstdint>

#include "harness/base/host_device.hpp"
#include "harness/base/random.hpp"
#include "harness/layout/layout.hpp"

namespace zp {

ZP_HOST_DEVICE inline float initial_value(Init init, uint64_t key, uint64_t element, float scale) {
  if (init != Init::normal) return init == Init::ones ? 1.0F : 0.0F;
  return random_normal(key, element, scale);
}

// k/8 with k = floor(17·u/2³²) - 8, u the upper half of the element's random bits: sums of many are exact.
ZP_HOST_DEVICE inline float synthetic_gradient(uint64_t key, uint64_t element) {
  const uint64_t bits = random_bits(key, element);
  return static_cast<float>(static_cast<int64_t>(((bits >> 32) * 17) >> 32) - 8) * 0.125F;
}

}  // namespace zp
