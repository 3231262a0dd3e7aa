// What every table checks of a call before it runs it: the shapes and lengths that the contract in
// kernels.hpp asks for. What memory holds (tokens, numbers that fixed point refuses) the kernels look at.
#pragma once

#include "kernels/kernels.hpp"

namespace zp::kernels {

// Throws (internal) the first rule that the call breaks.
void require_arguments(const Call& call);

// What becomes of a call that was given a token outside its table.
void require_tokens(bool all_lie_in_the_vocabulary);
// And of one whose element `at` is more than fixed point holds.
[[noreturn]] void fail_to_fixed(int64_t at, float value, int64_t terms);

}  // namespace zp::kernels
