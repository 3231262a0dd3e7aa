// Sixteen lanes in AVX-512 registers (F, DQ, BW, VL). Included by simd.hpp only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace zp::kernels::ZP_ISA {

inline constexpr int64_t kLanes = 16;

struct Floats {
  __m512 v;
};
struct Ints {
  __m512i v;
};
struct Mask {
  __mmask16 v;
};

ZP_INLINE Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
ZP_INLINE void store(float* p, Floats a) { _mm512_storeu_ps(p, a.v); }
ZP_INLINE Floats splat(float x) { return {_mm512_set1_ps(x)}; }
ZP_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// fma for long-lived accumulators: g++ 12 otherwise mixes the instruction's forms in the GEMM and moves
// registers.
ZP_INLINE Floats accumulate(Floats a, Floats b, Floats c) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(c.v) : "v"(a.v), "v"(b.v));
  return c;
}
ZP_INLINE Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
ZP_INLINE Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
ZP_INLINE Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
ZP_INLINE Floats operator/(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
ZP_INLINE Floats sqrt(Floats a) { return {_mm512_sqrt_ps(a.v)}; }
ZP_INLINE Ints bits_of(Floats a) { return {_mm512_castps_si512(a.v)}; }
ZP_INLINE Floats from_bits(Ints a) { return {_mm512_castsi512_ps(a.v)}; }
ZP_INLINE Floats to_float(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
ZP_INLINE Ints load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
ZP_INLINE void store(int32_t* p, Ints a) { _mm512_storeu_si512(p, a.v); }
ZP_INLINE Ints splat(int32_t x) { return {_mm512_set1_epi32(x)}; }
ZP_INLINE Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
ZP_INLINE Ints operator-(Ints a, Ints b) { return {_mm512_sub_epi32(a.v, b.v)}; }
ZP_INLINE Ints operator&(Ints a, Ints b) { return {_mm512_and_si512(a.v, b.v)}; }
ZP_INLINE Ints operator|(Ints a, Ints b) { return {_mm512_or_si512(a.v, b.v)}; }
ZP_INLINE Ints operator^(Ints a, Ints b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int n>
ZP_INLINE Ints shift_left(Ints a) {
  return {_mm512_slli_epi32(a.v, n)};
}
template <int n>  // copies the sign
ZP_INLINE Ints shift_right(Ints a) {
  return {_mm512_srai_epi32(a.v, n)};
}
template <int n>  // fills with zeros
ZP_INLINE Ints shift_right_zeros(Ints a) {
  return {_mm512_srli_epi32(a.v, n)};
}
ZP_INLINE Mask less(Floats a, Floats b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
ZP_INLINE Mask less(Ints a, Ints b) { return {_mm512_cmplt_epi32_mask(a.v, b.v)}; }
ZP_INLINE Mask is_nan(Floats a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
ZP_INLINE Floats select(Mask mask, Floats yes, Floats no) {
  return {_mm512_mask_blend_ps(mask.v, no.v, yes.v)};
}
ZP_INLINE Ints select(Mask mask, Ints yes, Ints no) { return {_mm512_mask_blend_epi32(mask.v, no.v, yes.v)}; }
// The larger, the smaller; `a` where neither is.
ZP_INLINE Floats larger(Floats a, Floats b) { return {_mm512_max_ps(b.v, a.v)}; }
ZP_INLINE Floats smaller(Floats a, Floats b) { return {_mm512_min_ps(b.v, a.v)}; }
// bf16 as its 16 bits.
ZP_INLINE Floats load_widened(const uint16_t* p) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}
// The low 16 bits of each lane.
ZP_INLINE void store_halves(uint16_t* p, Ints a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}
ZP_INLINE Ints lane_numbers() {
  return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
}
// All ones in the first `count` lanes.
ZP_INLINE Mask first_lanes(int64_t count) { return {static_cast<__mmask16>((1U << count) - 1U)}; }
// The first `count` (at most kLanes) elements; the other lanes are +0 and their memory is not touched.
ZP_INLINE Floats load_part(const float* p, int64_t count) {
  return {_mm512_maskz_loadu_ps(first_lanes(count).v, p)};
}
ZP_INLINE void store_part(float* p, Floats a, int64_t count) {
  _mm512_mask_storeu_ps(p, first_lanes(count).v, a.v);
}
ZP_INLINE Floats load_widened_part(const uint16_t* p, int64_t count) {
  const __m256i halves = _mm256_maskz_loadu_epi16(first_lanes(count).v, p);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}
ZP_INLINE void store_halves_part(uint16_t* p, Ints a, int64_t count) {
  _mm256_mask_storeu_epi16(p, first_lanes(count).v, _mm512_cvtepi32_epi16(a.v));
}
// y·2ⁿ, rounded once.
ZP_INLINE Floats times_power_of_two(Floats y, Floats n, Ints /*exponent*/) {
  return {_mm512_scalef_ps(y.v, n.v)};
}
ZP_INLINE Floats times_normal_power_of_two(Floats y, Floats n, Ints exponent) {
  return times_power_of_two(y, n, exponent);
}
// The largest lane, none being NaN.
ZP_INLINE float largest(Floats a) { return _mm512_reduce_max_ps(a.v); }
// Folds 32 virtual lanes, lane l in lanes[l / 16]: l with l + 16, then 8, 4, 2, 1.
ZP_INLINE float folded(const Floats (&lanes)[2]) {
  const __m512 all = _mm512_add_ps(lanes[0].v, lanes[1].v);
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

}  // namespace zp::kernels::ZP_ISA
