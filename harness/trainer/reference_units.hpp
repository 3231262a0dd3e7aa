// Tensors of a model as the reference numbers them: over the whole model, in unit order.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/model/model.hpp"

namespace zp {

struct NumberedTensor {
  TensorSpec spec;
  int64_t length = 0;
  int64_t logical = 0;  // number of its first element over the whole model
  bool frozen = false;
};

struct NumberedUnit {
  std::vector<NumberedTensor> tensors;
  int64_t length = 0;
  bool frozen = false;
};

std::vector<NumberedUnit> numbered_units(const ModelConfig& model);

}  // namespace zp
