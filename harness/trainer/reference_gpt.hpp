// GPT-2 (without dropout) once more, for the reference: whole tensors by name, the gradient of one
// micro-batch in one call. Of harness/model it shares the names of tensors, and nothing of forward or
// backward.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "harness/device/device.hpp"
#include "harness/model/model.hpp"
#include "kernels/kernels.hpp"

namespace zp {

using Tensors = std::map<std::string, Buffer>;  // by tensor name

class ReferenceGpt {
 public:
  ReferenceGpt() = default;
  ReferenceGpt(const ReferenceGpt&) = delete;
  ReferenceGpt& operator=(const ReferenceGpt&) = delete;
  virtual ~ReferenceGpt() = default;

  // Mean token loss of the micro-batch; its gradient overwrites `grads` (fp32, every tensor of the model,
  // frozen or not).
  virtual float gradient(const MicroBatch& tokens, const Tensors& weights, const Tensors& grads) = 0;
};

// `stored`: the type that gradients are stored in. What a tied head leaves in the token table's gradient is
// rounded to it before the embeddings add theirs.
std::unique_ptr<ReferenceGpt> make_reference_gpt(const ModelConfig& config, const BatchShape& shape,
                                                 Type stored, Device& device, kernels::Table& kernels);

}  // namespace zp
