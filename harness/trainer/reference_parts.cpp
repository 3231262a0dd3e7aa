// Sums over micro-batches of a part of one tensor.
#include "harness/trainer/reference_parts.hpp"

#include <algorithm>

namespace zp {

void PartSums::sum_unit(const std::vector<Whole>& tensors, const std::vector<std::unique_ptr<Sum>>& by_owner,
                        const Tensors& total) const {
  const auto world = static_cast<int>(by_owner.size());
  int64_t unit_length = 0;
  for (const Whole& tensor : tensors) unit_length += tensor.length;
  int64_t at = 0;
  for (const Whole& tensor : tensors) {
    for (int owner = 0; owner < world; ++owner) {
      const int64_t begin = std::max(first_owned(unit_length, world, owner) - at, int64_t{0});
      const int64_t end = std::min(first_owned(unit_length, world, owner + 1) - at, tensor.length);
      if (begin >= end) continue;
      const Part part{.name = tensor.name, .range = {{begin}, {end}}};
      const Buffer sum = evaluate(*by_owner[static_cast<size_t>(owner)], part);
      kernels_.run(
          kernels::Fold{.inputs = {sum.all()}, .out = total.at(part.name).part(part.range), .divisor = 1.0F});
    }
    at += tensor.length;
  }
}

Buffer PartSums::evaluate(const Sum& sum, const Part& part) const {
  const bool stored = sum.is_leaf() || sum.rounded;
  Buffer out = device_.acquire(Category::fold, stored ? stored_ : Type::f32, part.range.length());
  if (sum.is_leaf()) {
    const View leaf = gradients_[static_cast<size_t>(sum.micro_batch)].at(part.name).part(part.range);
    kernels_.run(kernels::Cast{.from = leaf, .to = out.all()});
    return out;
  }
  const Buffer low = evaluate(*sum.low, part);
  const Buffer high = evaluate(*sum.high, part);
  kernels_.run(kernels::Fold{.inputs = {low.all(), high.all()}, .out = out.all(), .divisor = 1.0F});
  return out;
}

}  // namespace zp
