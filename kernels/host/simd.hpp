// kLanes lanes of fp32 and of int32: 16 in AVX-512, one on a GPU, else 8. Every operation is one IEEE-754 (or
// integer) operation a lane, so all ISAs give the same bits. A file that includes this is compiled once per
// ISA, with ZP_ISA naming the namespace (avx512, avx2 or portable) and ZP_ISA_AVX512 or ZP_ISA_AVX2 set to 1;
// all that it defines stands in that namespace, so they link into one program.
#pragma once

#include <cstdint>

#include "harness/base/host_device.hpp"

#if !defined(ZP_ISA) || !defined(ZP_ISA_AVX2)
#error "compiled once per ISA: see kernels/CMakeLists.txt"
#endif
#if !defined(ZP_ISA_AVX512)
#define ZP_ISA_AVX512 0
#endif
#if !defined(ZP_ISA_ONE_LANE)
#define ZP_ISA_ONE_LANE 0
#endif
#if defined(__FAST_MATH__)
#error "the arithmetic contract forbids fast-math"
#endif

// Inlined even in debug builds: a call would put vector arguments into a function of the baseline ABI.
#define ZP_INLINE ZP_HOST_DEVICE inline __attribute__((always_inline))

#if ZP_ISA_ONE_LANE
#include "kernels/host/simd_one.hpp"
#elif ZP_ISA_AVX512
#include "kernels/host/simd_avx512.hpp"
#elif ZP_ISA_AVX2
#include "kernels/host/simd_avx2.hpp"
#else
#include "kernels/host/simd_portable.hpp"
#endif
#if !ZP_ISA_AVX512 && !ZP_ISA_ONE_LANE
#include "kernels/host/simd_eight.hpp"
#endif
#if !ZP_ISA_ONE_LANE
#include "kernels/host/simd_twice.hpp"
#endif

namespace zp::kernels::ZP_ISA {

// The bf16 (in the low 16 bits) nearest to each lane, ties to even; every NaN becomes 0x7fff
// (harness/base/type.hpp).
ZP_INLINE Ints round_to_bf16(Floats a) {
  const Ints x = bits_of(a);
  const Ints odd = shift_right_zeros<16>(x) & splat(1);
  const Ints rounded = shift_right_zeros<16>(x + splat(0x7fff) + odd);
  return select(is_nan(a), splat(0x7fff), rounded);
}
ZP_INLINE float first(Floats a) {
  float lanes[kLanes];
  store(lanes, a);
  return lanes[0];
}

}  // namespace zp::kernels::ZP_ISA
