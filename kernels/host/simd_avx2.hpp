// Eight lanes in AVX2 registers. Included by simd.hpp only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace zp::kernels::ZP_ISA {

inline constexpr int64_t kLanes = 8;

struct Floats {
  __m256 v;
};
struct Ints {
  __m256i v;
};

ZP_INLINE Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
ZP_INLINE void store(float* p, Floats a) { _mm256_storeu_ps(p, a.v); }
ZP_INLINE Floats splat(float x) { return {_mm256_set1_ps(x)}; }
ZP_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
// fma for long-lived accumulators: g++ 12 otherwise mixes the instruction's forms in the GEMM and moves
// registers.
ZP_INLINE Floats accumulate(Floats a, Floats b, Floats c) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(c.v) : "x"(a.v), "x"(b.v));
  return c;
}
ZP_INLINE Floats operator+(Floats a, Floats b) { return {_mm256_add_ps(a.v, b.v)}; }
ZP_INLINE Floats operator-(Floats a, Floats b) { return {_mm256_sub_ps(a.v, b.v)}; }
ZP_INLINE Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
ZP_INLINE Floats operator/(Floats a, Floats b) { return {_mm256_div_ps(a.v, b.v)}; }
ZP_INLINE Floats sqrt(Floats a) { return {_mm256_sqrt_ps(a.v)}; }
ZP_INLINE Ints bits_of(Floats a) { return {_mm256_castps_si256(a.v)}; }
ZP_INLINE Floats from_bits(Ints a) { return {_mm256_castsi256_ps(a.v)}; }
ZP_INLINE Floats to_float(Ints a) { return {_mm256_cvtepi32_ps(a.v)}; }
ZP_INLINE Ints load(const int32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
ZP_INLINE void store(int32_t* p, Ints a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
ZP_INLINE Ints splat(int32_t x) { return {_mm256_set1_epi32(x)}; }
ZP_INLINE Ints operator+(Ints a, Ints b) { return {_mm256_add_epi32(a.v, b.v)}; }
ZP_INLINE Ints operator-(Ints a, Ints b) { return {_mm256_sub_epi32(a.v, b.v)}; }
ZP_INLINE Ints operator&(Ints a, Ints b) { return {_mm256_and_si256(a.v, b.v)}; }
ZP_INLINE Ints operator|(Ints a, Ints b) { return {_mm256_or_si256(a.v, b.v)}; }
ZP_INLINE Ints operator^(Ints a, Ints b) { return {_mm256_xor_si256(a.v, b.v)}; }
template <int n>
ZP_INLINE Ints shift_left(Ints a) {
  return {_mm256_slli_epi32(a.v, n)};
}
template <int n>  // copies the sign
ZP_INLINE Ints shift_right(Ints a) {
  return {_mm256_srai_epi32(a.v, n)};
}
template <int n>  // fills with zeros
ZP_INLINE Ints shift_right_zeros(Ints a) {
  return {_mm256_srli_epi32(a.v, n)};
}
using Mask = Ints;  // all ones where true
ZP_INLINE Mask less(Floats a, Floats b) { return {_mm256_castps_si256(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))}; }
ZP_INLINE Mask less(Ints a, Ints b) { return {_mm256_cmpgt_epi32(b.v, a.v)}; }
ZP_INLINE Mask is_nan(Floats a) { return {_mm256_castps_si256(_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))}; }
ZP_INLINE Floats select(Mask mask, Floats yes, Floats no) {
  return {_mm256_blendv_ps(no.v, yes.v, _mm256_castsi256_ps(mask.v))};
}
ZP_INLINE Ints select(Mask mask, Ints yes, Ints no) { return {_mm256_blendv_epi8(no.v, yes.v, mask.v)}; }
// bf16 as its 16 bits.
ZP_INLINE Floats load_widened(const uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16))};
}
// The low 16 bits of each lane.
ZP_INLINE void store_halves(uint16_t* p, Ints a) {
  const __m256i low = _mm256_and_si256(a.v, _mm256_set1_epi32(0xffff));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
ZP_INLINE Ints lane_numbers() { return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)}; }

// The larger, the smaller; `a` where neither is.
ZP_INLINE Floats larger(Floats a, Floats b) { return {_mm256_max_ps(b.v, a.v)}; }
ZP_INLINE Floats smaller(Floats a, Floats b) { return {_mm256_min_ps(b.v, a.v)}; }

// The largest lane, none being NaN.
ZP_INLINE float largest(Floats a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
// Folds the lanes: l with l + 4, then 2, then 1.
ZP_INLINE float folded(Floats a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace zp::kernels::ZP_ISA
