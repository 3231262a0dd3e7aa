// Elements as words of bits, and products and sums of such words: what the hashes of kernels/hash.hpp are
// made of. For *.isa.cpp.
#pragma once

#include <memory>

#include "kernels/host/elements.hpp"

namespace zp::kernels::ZP_ISA {

ZP_INLINE uint32_t bits_at(const float* x) { return __builtin_bit_cast(uint32_t, *x); }
ZP_INLINE uint32_t bits_at(const bf16* x) { return x->bits; }
ZP_INLINE constexpr uint32_t sign_of(const float*) { return 0x80000000U; }
ZP_INLINE constexpr uint32_t sign_of(const bf16*) { return 0x8000U; }
// 1 in the exponent: added to Inf or NaN, and to nothing else, it carries into the sign.
ZP_INLINE constexpr uint32_t carry_of(const float*) { return 0x00800000U; }
ZP_INLINE constexpr uint32_t carry_of(const bf16*) { return 0x0080U; }

#if ZP_ISA_AVX2 || ZP_ISA_AVX512

// Words are 32-bit lanes; where a name says 64, pairs of them: an even word is low, an odd one high. What
// moves words is a shuffle where it can be, since AVX-512's shifts and products all wait for one of the two
// units.
#if ZP_ISA_AVX512
constexpr __mmask16 kEven = 0x5555, kOdd = 0xaaaa;
ZP_INLINE Ints sum64(Ints a, Ints b) { return {_mm512_add_epi64(a.v, b.v)}; }
ZP_INLINE Ints multiply64(Ints a, Ints b) { return {_mm512_mul_epu32(a.v, b.v)}; }  // the low words
template <int n>
ZP_INLINE Ints shift_right64(Ints a) {
  return {_mm512_srli_epi64(a.v, n)};
}
ZP_INLINE Ints high_to_low(Ints a) { return {_mm512_shuffle_epi32(a.v, _MM_PERM_DDBB)}; }
// The low (or high) words of `even` at even places, those of `odd` at odd ones.
ZP_INLINE Ints low_words(Ints even, Ints odd) {
  return {_mm512_mask_shuffle_epi32(even.v, kOdd, odd.v, _MM_PERM_CCAA)};
}
ZP_INLINE Ints high_words(Ints even, Ints odd) {
  return {_mm512_mask_shuffle_epi32(odd.v, kEven, even.v, _MM_PERM_DDBB)};
}
// a + (b << 32): of b's even words, or of its odd ones.
ZP_INLINE Ints sum_above_even(Ints a, Ints b) {
  return {_mm512_mask_add_epi32(a.v, kOdd, a.v, _mm512_shuffle_epi32(b.v, _MM_PERM_CCAA))};
}
ZP_INLINE Ints sum_above_odd(Ints a, Ints b) { return {_mm512_mask_add_epi32(a.v, kOdd, a.v, b.v)}; }
ZP_INLINE Ints xor3(Ints a, Ints b, Ints c) { return {_mm512_ternarylogic_epi32(a.v, b.v, c.v, 0x96)}; }
ZP_INLINE Ints or_unequal(Ints a, Ints b, Ints c) {  // a | (b ^ c)
  return {_mm512_ternarylogic_epi32(a.v, b.v, c.v, 0xf6)};
}
ZP_INLINE Ints words_at(const bf16* x) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)))};
}
#else
ZP_INLINE Ints sum64(Ints a, Ints b) { return {_mm256_add_epi64(a.v, b.v)}; }
ZP_INLINE Ints multiply64(Ints a, Ints b) { return {_mm256_mul_epu32(a.v, b.v)}; }  // the low words
template <int n>
ZP_INLINE Ints shift_right64(Ints a) {
  return {_mm256_srli_epi64(a.v, n)};
}
ZP_INLINE Ints high_to_low(Ints a) { return {_mm256_shuffle_epi32(a.v, 0xf5)}; }
// The low (or high) words of `even` at even places, those of `odd` at odd ones.
ZP_INLINE Ints low_words(Ints even, Ints odd) {
  return {_mm256_blend_epi32(even.v, _mm256_shuffle_epi32(odd.v, 0xa0), 0xaa)};
}
ZP_INLINE Ints high_words(Ints even, Ints odd) {
  return {_mm256_blend_epi32(odd.v, _mm256_shuffle_epi32(even.v, 0xf5), 0x55)};
}
// a + (b << 32): of b's even words, or of its odd ones.
ZP_INLINE Ints sum_above_even(Ints a, Ints b) { return sum64(a, {_mm256_slli_epi64(b.v, 32)}); }
ZP_INLINE Ints sum_above_odd(Ints a, Ints b) {
  return sum64(a, {_mm256_blend_epi32(b.v, _mm256_setzero_si256(), 0x55)});
}
ZP_INLINE Ints xor3(Ints a, Ints b, Ints c) { return a ^ b ^ c; }
ZP_INLINE Ints or_unequal(Ints a, Ints b, Ints c) { return a | (b ^ c); }
ZP_INLINE Ints words_at(const bf16* x) {
  return {_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)))};
}
#endif

ZP_INLINE Ints words_at(const float* x) { return bits_of(load(x)); }
ZP_INLINE Ints word(uint32_t x) { return splat(static_cast<int32_t>(x)); }

// Elements that are asked of memory ahead of their turn: a line's arithmetic is long enough that the
// processor by itself sees only few lines ahead, too few where memory is far.
constexpr int64_t kHashedAhead = 1024;

ZP_INLINE uint64_t total(Ints x) {
  uint64_t lanes[kLanes / 2];
  __builtin_memcpy(lanes, &x, sizeof(lanes));
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}
ZP_INLINE uint32_t any_of(Ints x) {
  int32_t lanes[kLanes];
  store(lanes, x);
  uint32_t any = 0;
  for (const int32_t lane : lanes) any |= static_cast<uint32_t>(lane);
  return any;
}

#endif

// add(first element, how many, index of the first, sum) for blocks of the call's elements.
template <class Add>
void over_hashed(HostContext& context, const HashRun& call, const Add& add) {
  const int64_t n = call.x.length().n;
  const uint64_t index = (static_cast<uint64_t>(call.kind) << 48) + static_cast<uint64_t>(call.logical);
  const std::unique_ptr<HashSum[]> of_worker(new HashSum[static_cast<size_t>(context.pool.threads())]);
  HashSum* const sums = of_worker.get();
  with_type(call.x.type(), [&](auto zero) {
    const auto* x = call.x.read<decltype(zero)>();
    context.pool.parallel_for((n + kBlock - 1) / kBlock, [=](int64_t b, int worker) {
      const int64_t begin = b * kBlock, end = begin + kBlock;
      add(x + begin, (end < n ? end : n) - begin, index + static_cast<uint64_t>(begin), sums[worker]);
    });
  });
  for (int w = 0; w < context.pool.threads(); ++w) *call.sum += sums[w];
}

}  // namespace zp::kernels::ZP_ISA
