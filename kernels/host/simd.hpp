// Eight lanes of fp32 and of int32. Every operation is one IEEE-754 (or integer) operation a lane, so
// AVX2+FMA and plain C++ give the same bits. A file that includes this is compiled once per ISA, with ZP_ISA
// naming the namespace (avx2 or portable) and ZP_ISA_AVX2 set to 1 or 0; all that it defines stands in that
// namespace, so both link into one program.
#pragma once

#include <cstdint>

#if !defined(ZP_ISA) || !defined(ZP_ISA_AVX2)
#error "compiled once per ISA: see kernels/CMakeLists.txt"
#endif
#if defined(__FAST_MATH__)
#error "the arithmetic contract forbids fast-math"
#endif
#if ZP_ISA_AVX2
#include <immintrin.h>
#endif

// Inlined even in debug builds: a call would put vector arguments into a function of the baseline ABI.
#define ZP_INLINE inline __attribute__((always_inline))

namespace zp::kernels::ZP_ISA {

inline constexpr int64_t kLanes = 8;

#if ZP_ISA_AVX2

struct F32x8 {
  __m256 v;
};
struct I32x8 {
  __m256i v;
};

ZP_INLINE F32x8 load(const float* p) { return {_mm256_loadu_ps(p)}; }
ZP_INLINE void store(float* p, F32x8 a) { _mm256_storeu_ps(p, a.v); }
ZP_INLINE F32x8 splat(float x) { return {_mm256_set1_ps(x)}; }
ZP_INLINE F32x8 fma(F32x8 a, F32x8 b, F32x8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
// fma for long-lived accumulators: g++ 12 otherwise mixes the instruction's forms in the GEMM and moves
// registers.
ZP_INLINE F32x8 accumulate(F32x8 a, F32x8 b, F32x8 c) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(c.v) : "x"(a.v), "x"(b.v));
  return c;
}
ZP_INLINE F32x8 operator+(F32x8 a, F32x8 b) { return {_mm256_add_ps(a.v, b.v)}; }
ZP_INLINE F32x8 operator-(F32x8 a, F32x8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
ZP_INLINE F32x8 operator*(F32x8 a, F32x8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
ZP_INLINE F32x8 operator/(F32x8 a, F32x8 b) { return {_mm256_div_ps(a.v, b.v)}; }
ZP_INLINE F32x8 sqrt(F32x8 a) { return {_mm256_sqrt_ps(a.v)}; }
ZP_INLINE I32x8 bits_of(F32x8 a) { return {_mm256_castps_si256(a.v)}; }
ZP_INLINE F32x8 from_bits(I32x8 a) { return {_mm256_castsi256_ps(a.v)}; }
ZP_INLINE F32x8 to_float(I32x8 a) { return {_mm256_cvtepi32_ps(a.v)}; }
ZP_INLINE I32x8 load(const int32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
ZP_INLINE void store(int32_t* p, I32x8 a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
ZP_INLINE I32x8 splat(int32_t x) { return {_mm256_set1_epi32(x)}; }
ZP_INLINE I32x8 operator+(I32x8 a, I32x8 b) { return {_mm256_add_epi32(a.v, b.v)}; }
ZP_INLINE I32x8 operator-(I32x8 a, I32x8 b) { return {_mm256_sub_epi32(a.v, b.v)}; }
ZP_INLINE I32x8 operator&(I32x8 a, I32x8 b) { return {_mm256_and_si256(a.v, b.v)}; }
ZP_INLINE I32x8 operator|(I32x8 a, I32x8 b) { return {_mm256_or_si256(a.v, b.v)}; }
ZP_INLINE I32x8 operator^(I32x8 a, I32x8 b) { return {_mm256_xor_si256(a.v, b.v)}; }
template <int n>
ZP_INLINE I32x8 shift_left(I32x8 a) {
  return {_mm256_slli_epi32(a.v, n)};
}
template <int n>  // copies the sign
ZP_INLINE I32x8 shift_right(I32x8 a) {
  return {_mm256_srai_epi32(a.v, n)};
}
template <int n>  // fills with zeros
ZP_INLINE I32x8 shift_right_zeros(I32x8 a) {
  return {_mm256_srli_epi32(a.v, n)};
}
// Masks: all ones where true.
ZP_INLINE I32x8 less(F32x8 a, F32x8 b) { return {_mm256_castps_si256(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))}; }
ZP_INLINE I32x8 less(I32x8 a, I32x8 b) { return {_mm256_cmpgt_epi32(b.v, a.v)}; }
ZP_INLINE I32x8 is_nan(F32x8 a) { return {_mm256_castps_si256(_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))}; }
ZP_INLINE F32x8 select(I32x8 mask, F32x8 yes, F32x8 no) {
  return {_mm256_blendv_ps(no.v, yes.v, _mm256_castsi256_ps(mask.v))};
}
ZP_INLINE I32x8 select(I32x8 mask, I32x8 yes, I32x8 no) { return {_mm256_blendv_epi8(no.v, yes.v, mask.v)}; }
// bf16 as its 16 bits.
ZP_INLINE F32x8 load_widened(const uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16))};
}
// The low 16 bits of each lane.
ZP_INLINE void store_halves(uint16_t* p, I32x8 a) {
  const __m256i low = _mm256_and_si256(a.v, _mm256_set1_epi32(0xffff));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
ZP_INLINE I32x8 lane_numbers() { return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)}; }

#else

struct F32x8 {
  float v[8];
};
struct I32x8 {
  int32_t v[8];
};

template <class To, class Lane>
ZP_INLINE To each_lane(Lane lane) {
  To to;
  for (int l = 0; l < 8; ++l) to.v[l] = lane(l);
  return to;
}

ZP_INLINE F32x8 load(const float* p) {
  return each_lane<F32x8>([&](int l) { return p[l]; });
}
ZP_INLINE void store(float* p, F32x8 a) {
  for (int l = 0; l < 8; ++l) p[l] = a.v[l];
}
ZP_INLINE F32x8 splat(float x) {
  return each_lane<F32x8>([&](int) { return x; });
}
ZP_INLINE F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  return each_lane<F32x8>([&](int l) { return __builtin_fmaf(a.v[l], b.v[l], c.v[l]); });
}
ZP_INLINE F32x8 accumulate(F32x8 a, F32x8 b, F32x8 c) { return fma(a, b, c); }
ZP_INLINE F32x8 operator+(F32x8 a, F32x8 b) {
  return each_lane<F32x8>([&](int l) { return a.v[l] + b.v[l]; });
}
ZP_INLINE F32x8 operator-(F32x8 a, F32x8 b) {
  return each_lane<F32x8>([&](int l) { return a.v[l] - b.v[l]; });
}
ZP_INLINE F32x8 operator*(F32x8 a, F32x8 b) {
  return each_lane<F32x8>([&](int l) { return a.v[l] * b.v[l]; });
}
ZP_INLINE F32x8 operator/(F32x8 a, F32x8 b) {
  return each_lane<F32x8>([&](int l) { return a.v[l] / b.v[l]; });
}
ZP_INLINE F32x8 sqrt(F32x8 a) {
  return each_lane<F32x8>([&](int l) { return __builtin_sqrtf(a.v[l]); });
}
ZP_INLINE I32x8 bits_of(F32x8 a) { return __builtin_bit_cast(I32x8, a); }
ZP_INLINE F32x8 from_bits(I32x8 a) { return __builtin_bit_cast(F32x8, a); }
ZP_INLINE F32x8 to_float(I32x8 a) {
  return each_lane<F32x8>([&](int l) { return static_cast<float>(a.v[l]); });
}
ZP_INLINE I32x8 load(const int32_t* p) {
  return each_lane<I32x8>([&](int l) { return p[l]; });
}
ZP_INLINE void store(int32_t* p, I32x8 a) {
  for (int l = 0; l < 8; ++l) p[l] = a.v[l];
}
ZP_INLINE I32x8 splat(int32_t x) {
  return each_lane<I32x8>([&](int) { return x; });
}
// Unsigned, because sums and shifts wrap.
ZP_INLINE uint32_t raw(int32_t x) { return static_cast<uint32_t>(x); }
ZP_INLINE int32_t wrapped(uint32_t x) { return static_cast<int32_t>(x); }
ZP_INLINE I32x8 operator+(I32x8 a, I32x8 b) {
  return each_lane<I32x8>([&](int l) { return wrapped(raw(a.v[l]) + raw(b.v[l])); });
}
ZP_INLINE I32x8 operator-(I32x8 a, I32x8 b) {
  return each_lane<I32x8>([&](int l) { return wrapped(raw(a.v[l]) - raw(b.v[l])); });
}
ZP_INLINE I32x8 operator&(I32x8 a, I32x8 b) {
  return each_lane<I32x8>([&](int l) { return a.v[l] & b.v[l]; });
}
ZP_INLINE I32x8 operator|(I32x8 a, I32x8 b) {
  return each_lane<I32x8>([&](int l) { return a.v[l] | b.v[l]; });
}
ZP_INLINE I32x8 operator^(I32x8 a, I32x8 b) {
  return each_lane<I32x8>([&](int l) { return a.v[l] ^ b.v[l]; });
}
template <int n>
ZP_INLINE I32x8 shift_left(I32x8 a) {
  return each_lane<I32x8>([&](int l) { return wrapped(raw(a.v[l]) << n); });
}
template <int n>
ZP_INLINE I32x8 shift_right(I32x8 a) {
  return each_lane<I32x8>([&](int l) { return a.v[l] >> n; });
}
template <int n>
ZP_INLINE I32x8 shift_right_zeros(I32x8 a) {
  return each_lane<I32x8>([&](int l) { return wrapped(raw(a.v[l]) >> n); });
}
ZP_INLINE I32x8 less(F32x8 a, F32x8 b) {
  return each_lane<I32x8>([&](int l) { return a.v[l] < b.v[l] ? -1 : 0; });
}
ZP_INLINE I32x8 less(I32x8 a, I32x8 b) {
  return each_lane<I32x8>([&](int l) { return a.v[l] < b.v[l] ? -1 : 0; });
}
ZP_INLINE I32x8 is_nan(F32x8 a) {
  return each_lane<I32x8>([&](int l) { return a.v[l] != a.v[l] ? -1 : 0; });
}
ZP_INLINE F32x8 select(I32x8 mask, F32x8 yes, F32x8 no) {
  return each_lane<F32x8>([&](int l) { return mask.v[l] != 0 ? yes.v[l] : no.v[l]; });
}
ZP_INLINE I32x8 select(I32x8 mask, I32x8 yes, I32x8 no) {
  return each_lane<I32x8>([&](int l) { return mask.v[l] != 0 ? yes.v[l] : no.v[l]; });
}
ZP_INLINE F32x8 load_widened(const uint16_t* p) {
  return from_bits(each_lane<I32x8>([&](int l) { return wrapped(uint32_t{p[l]} << 16); }));
}
ZP_INLINE void store_halves(uint16_t* p, I32x8 a) {
  for (int l = 0; l < 8; ++l) p[l] = static_cast<uint16_t>(raw(a.v[l]));
}
ZP_INLINE I32x8 lane_numbers() {
  return each_lane<I32x8>([](int l) { return l; });
}

#endif

// All ones in the first `count` lanes.
ZP_INLINE I32x8 first_lanes(int64_t count) {
  return less(lane_numbers(), splat(static_cast<int32_t>(count)));
}
// The first `count` (at most 8) elements; the other lanes are +0 and their memory is not touched.
ZP_INLINE F32x8 load_part(const float* p, int64_t count) {
  float lanes[8] = {};
  for (int64_t l = 0; l < count; ++l) lanes[l] = p[l];
  return load(lanes);
}
ZP_INLINE void store_part(float* p, F32x8 a, int64_t count) {
  float lanes[8];
  store(lanes, a);
  for (int64_t l = 0; l < count; ++l) p[l] = lanes[l];
}
ZP_INLINE F32x8 load_widened_part(const uint16_t* p, int64_t count) {
  uint16_t lanes[8] = {};
  for (int64_t l = 0; l < count; ++l) lanes[l] = p[l];
  return load_widened(lanes);
}
ZP_INLINE void store_halves_part(uint16_t* p, I32x8 a, int64_t count) {
  uint16_t lanes[8];
  store_halves(lanes, a);
  for (int64_t l = 0; l < count; ++l) p[l] = lanes[l];
}
// The bf16 (in the low 16 bits) nearest to each lane, ties to even; every NaN becomes 0x7fff
// (harness/base/type.hpp).
ZP_INLINE I32x8 round_to_bf16(F32x8 a) {
  const I32x8 x = bits_of(a);
  const I32x8 odd = shift_right_zeros<16>(x) & splat(1);
  const I32x8 rounded = shift_right_zeros<16>(x + splat(0x7fff) + odd);
  return select(is_nan(a), splat(0x7fff), rounded);
}
ZP_INLINE float first(F32x8 a) {
  float lanes[8];
  store(lanes, a);
  return lanes[0];
}

}  // namespace zp::kernels::ZP_ISA
