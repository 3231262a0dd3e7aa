// What a model and its kernels hold from init to end beside its states, as closed forms over plain shape
// numbers: activations and their gradients, tokens, kernel workspace.
#pragma once

#include "harness/base/quantities.hpp"
#include "harness/base/type.hpp"
#include "harness/layout/layout.hpp"
#include "harness/theory/memory.hpp"
#include "harness/theory/shape.hpp"

namespace zp::theory {

Bytes gpt_activations(const GptShape& shape);
// Tokens in and out, int32.
Bytes gpt_data(const GptShape& shape);
// The fp32 image of gradients on their way into a unit of another type: both embedding tables, or the largest
// linear. Nothing where gradients are stored in fp32.
Bytes gpt_gradient_image(const GptShape& shape, const Recipe& recipe);
// Scratch of the host kernels.
Bytes host_kernel_workspace(int threads, int64_t max_sequence);

// All of it by category, for held_per_step. The synthetic model holds the kernels' workspace only: the host
// kernels' above, or what another device's say of themselves.
HeldLines gpt_constants(const GptShape& shape, const Recipe& recipe, Bytes kernel_workspace);
HeldLines synthetic_constants(Bytes kernel_workspace);

}  // namespace zp::theory
