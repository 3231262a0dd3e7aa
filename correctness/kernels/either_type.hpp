// Values that a kernel may be given in either float type, and comparison with an exact result whose error is
// bounded.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "correctness/kernels/bounded.hpp"
#include "correctness/kernels/hosts.hpp"

namespace zp::kernels {

using Floats = std::vector<float>;
using Tokens = std::vector<int32_t>;

inline View put_as(Type type, const Floats& values, Bench& bench) {
  return type == Type::bf16 ? bench.put(rounded(values)) : bench.put(values);
}

// What a kernel sees of values that are kept in `type`.
inline Floats kept_as(Type type, Floats values) {
  if (type == Type::bf16) {
    for (float& x : values) x = widen(round_to_bf16(x));
  }
  return values;
}

// The same for a single result.
inline float kept_as(Type type, float x) { return type == Type::bf16 ? widen(round_to_bf16(x)) : x; }

inline Floats widened(const View& view) {
  if (view.type() == Type::f32) return values_of<float>(view);
  Floats out;
  for (const bf16 x : values_of<bf16>(view)) out.push_back(widen(x));
  return out;
}

inline Tokens tokens_below(int64_t below, int64_t length, uint64_t seed) {
  Tokens tokens;
  for (int64_t i = 0; i < length; ++i) {
    const uint64_t bits = random_bits(seed, static_cast<uint64_t>(i));
    tokens.push_back(static_cast<int32_t>(bits % static_cast<uint64_t>(below)));
  }
  return tokens;
}

// About normal, without the zeros of data().
inline Floats normal(int64_t length, uint64_t seed, float scale = 1.0F) {
  Floats values;
  for (int64_t i = 0; i < length; ++i) values.push_back(random_normal(seed, static_cast<uint64_t>(i), scale));
  return values;
}

inline std::vector<Bounded> bounded_list(const Floats& values) { return {values.begin(), values.end()}; }

// Whether each got[i] lies as near to exact[i] as the bound of its own computation says. `slack[i]`, where
// given, is what exact[i] itself may be off by.
inline testing::AssertionResult within_bounds(const Floats& got, const std::vector<double>& exact,
                                              const std::vector<Bounded>& bound,
                                              const std::vector<double>& slack = {}) {
  if (got.size() != exact.size() || got.size() != bound.size()) {
    return testing::AssertionFailure() << "lengths differ";
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const double allowed = bound[i].error + (slack.empty() ? 0.0 : slack[i]);
    if (!(std::abs(got[i] - exact[i]) <= allowed)) {
      return testing::AssertionFailure() << "element " << i << ": got " << got[i] << ", exact " << exact[i]
                                         << ", off by " << std::abs(got[i] - exact[i]) << " of " << allowed;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace zp::kernels
