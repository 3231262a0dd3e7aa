// What a call of a kernel costs at least: bytes, and floating-point operations.
#pragma once

#include "kernels/kernels.hpp"

namespace zp::bench {

// Bytes that a call reads and writes, each element of each of its views once a direction.
double bytes_moved(const kernels::Call& call);
// Floating-point operations of a call where products dominate, else 0.
double operations_of(const kernels::Call& call);

}  // namespace zp::bench
