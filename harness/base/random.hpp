// Counter-based random numbers: a value depends only on (key, counter), never on who asks or in which order.
// Integer work only, so the values are the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

#include "harness/base/host_device.hpp"

namespace zp {

// A bijective mix of 64 bits (the finaliser of SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
ZP_HOST_DEVICE constexpr uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// A key from a seed and a name, e.g. (seed, tensor name). FNV-1a over the name, mixed with the seed.
constexpr uint64_t key_of(uint64_t seed, std::string_view name) {
  uint64_t h = 1469598103934665603ULL;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return mix64(h + mix64(seed + 0x9e3779b97f4a7c15ULL));
}

// 64 random bits for (key, counter).
ZP_HOST_DEVICE constexpr uint64_t random_bits(uint64_t key, uint64_t counter) {
  return mix64(key + mix64(counter * 0x9e3779b97f4a7c15ULL + 0x632be59bd9b4e019ULL));
}

// Approximately normal, standard deviation `scale`: the centred sum of four 16-bit integers (Irwin-Hall),
// which is exact, then two rounded products. Range ±2·sqrt(3)·scale.
ZP_HOST_DEVICE constexpr float random_normal(uint64_t key, uint64_t counter, float scale) {
  const uint64_t r = random_bits(key, counter);
  const int64_t sum =
      static_cast<int64_t>((r & 0xffff) + ((r >> 16) & 0xffff) + ((r >> 32) & 0xffff) + (r >> 48));
  const float centred = static_cast<float>(2 * sum - 4 * 65535) * 0x1p-17F;  // variance 1/3
  return (centred * 1.7320508F) * scale;
}

}  // namespace zp
