// Which sums of gradients no order of additions changes, so that a library may add them in an order of its
// own.
#pragma once

#include "harness/suite/job.hpp"

namespace zp {

// Gradients of the synthetic model are k/8 with |k| ≤ 8: a sum of M of them is a whole number of eighths, 8·M
// at most, and exact where the significand of `grads` (fp32: 24 bits, bf16: 8) holds every whole number up to
// that. The most M for which it does.
constexpr int most_exact_terms(Type grads) { return (grads == Type::bf16 ? 1 << 8 : 1 << 24) / 8; }

// Whether every sum of a step's gradients, partial ones too, is exact in the recipe's gradient type. In fixed
// point, whose integers add exactly too, that is not asked.
bool sums_are_exact(const Job& job);

// Halving needs a power of two of ranks; a library's collectives need a library, and sums that no order
// changes. Throws (unavailable, usage).
void check_algorithm(const Job& job, std::string_view transport);

}  // namespace zp
