// What a model asks of kernels.
#include "harness/trainer/needs.hpp"

#include <algorithm>
#include <numeric>

namespace zp {
namespace {

// Elements that the tensors of a unit, side by side, begin at multiples of: a power of two, as far as anyone
// asks.
int64_t alignment_of(const ModelConfig& model) {
  constexpr int64_t kMost = 64;
  int64_t common = kMost;
  for (const UnitSpec& unit : model_units(model)) {
    int64_t at = 0;
    for (const TensorSpec& tensor : unit.tensors) {
      common = std::gcd(common, at);
      at += element_count(tensor).n;
    }
  }
  return common;
}

}  // namespace

// Products of a GPT (harness/model/gpt.cpp): A is an activation or its gradient, of up to 4·width or
// vocabulary columns; B is a weight, or for a weight's gradient what went into the linear, of up to 4·width.
KernelNeeds needs_of(const ModelConfig& model, const BatchShape& shape, const Recipe& recipe, Math math,
                     const kernels::HostOptions& host) {
  KernelNeeds needs;
  needs.host = host;
  needs.attention_rows = shape.rows() * model.heads;
  needs.math = math;
  needs.operands = recipe.params;
  needs.largest_a = shape.rows() * std::max(4 * model.width, model.vocabulary);
  needs.largest_b = shape.rows() * 4 * model.width;
  needs.alignment = alignment_of(model);
  return needs;
}

}  // namespace zp
