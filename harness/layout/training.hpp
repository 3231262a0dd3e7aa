// Numbers of the optimizer and the step, the same on every rank.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "harness/base/type.hpp"
#include "harness/layout/fold.hpp"
#include "harness/layout/schedule.hpp"

namespace zp {

// How parameters are updated: kernels/adamw.hpp and kernels/sgd.hpp hold the formulas.
enum class Method { adamw, sgd };
inline constexpr std::array kMethods{Method::adamw, Method::sgd};

constexpr std::string_view name_of(Method method) { return method == Method::adamw ? "adamw" : "sgd"; }

// Second moments are kept beside the first: sgd's momentum has none.
constexpr bool has_second_moments(Method method) { return method == Method::adamw; }

// fp32 words per parameter that the optimizer keeps: a master where the recipe has one, m, and v where the
// method has it.
constexpr int optimizer_words(const Recipe& recipe, Method method) {
  return 1 + (has_master(recipe) ? 1 : 0) + (has_second_moments(method) ? 1 : 0);
}

struct Training {
  Recipe recipe;
  Batching batching;
  Schedule schedule;
  int keep = 0;  // zero3: so many units, the last ones, stay gathered from forward to backward
  GradientWire wire = GradientWire::as_stored;
  uint64_t seed = 1;
  double clip = 1.0;  // largest gradient norm; 0: no clipping
  Method optimizer = Method::adamw;
  float lr = 3e-4F, weight_decay = 0.1F;
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;  // of adamw
  float momentum = 0.9F;                               // of sgd

  bool fixed_point() const { return wire == GradientWire::i64; }
  // In which sums of gradients cross ranks.
  Type wire_type() const { return fixed_point() ? Type::i64 : recipe.grads; }
};

}  // namespace zp
