// What a model asks of kernels: the sizes of their own memory follow from it, for those who acquire it and
// for those who predict it.
#pragma once

#include "harness/base/type.hpp"
#include "harness/model/model.hpp"
#include "harness/trainer/backend.hpp"

namespace zp {

KernelNeeds needs_of(const ModelConfig& model, const BatchShape& shape, const Recipe& recipe, Math math,
                     const kernels::HostOptions& host);

}  // namespace zp
