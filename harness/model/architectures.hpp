// What an architecture gives model.cpp: the units of its tensors and a model that runs them. Private to this
// folder.
#pragma once

#include <memory>
#include <vector>

#include "harness/model/model.hpp"

namespace zp {

// All that make_model is given, checked.
struct ModelParts {
  ModelConfig config;
  BatchShape shape;
  Recipe recipe;
  uint64_t seed = 0;
  Device& device;
  kernels::Table& kernels;
};

std::vector<UnitSpec> gpt_units(const ModelConfig& config);
std::unique_ptr<Model> make_gpt(const ModelParts& parts);

std::vector<UnitSpec> synthetic_units();
std::unique_ptr<Model> make_synthetic(const ModelParts& parts);

}  // namespace zp
