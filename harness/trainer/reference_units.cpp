// The reference's own count of a model's elements.
#include "harness/trainer/reference_units.hpp"

#include <utility>

namespace zp {

std::vector<NumberedUnit> numbered_units(const ModelConfig& model) {
  std::vector<NumberedUnit> units;
  int64_t logical = 0;
  for (const UnitSpec& spec : model_units(model)) {
    NumberedUnit unit;
    unit.frozen = spec.frozen;
    for (const TensorSpec& tensor : spec.tensors) {
      int64_t length = 1;
      for (const int64_t extent : tensor.shape) length *= extent;
      unit.tensors.push_back({.spec = tensor, .length = length, .logical = logical, .frozen = spec.frozen});
      unit.length += length;
      logical += length;
    }
    units.push_back(std::move(unit));
  }
  return units;
}

}  // namespace zp
