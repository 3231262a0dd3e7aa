// Whether this thread computes as the arithmetic contract demands (design 3.1): round to nearest even,
// subnormals kept, products and sums not fused unless written so. One library linked with -Ofast switches
// subnormals off for a process.
#pragma once

#if defined(__FAST_MATH__)
#error "the arithmetic contract forbids fast-math"
#endif

namespace zp {

// Throws (unavailable), naming the first rule that this thread breaks. Called in every thread that computes.
void require_float_environment();

}  // namespace zp
