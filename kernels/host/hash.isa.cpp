// The state hash of a run of elements (kernels/hash.hpp). AVX2 and AVX-512: a vector of elements at a
// time, in the words of hash_element.
#include <memory>

#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

ZP_INLINE uint32_t bits_at(const float* x) { return __builtin_bit_cast(uint32_t, *x); }
ZP_INLINE uint32_t bits_at(const bf16* x) { return x->bits; }
ZP_INLINE constexpr uint32_t sign_of(const float*) { return 0x80000000U; }
ZP_INLINE constexpr uint32_t sign_of(const bf16*) { return 0x8000U; }
// 1 in the exponent: added to Inf or NaN, and to nothing else, it carries into the sign.
ZP_INLINE constexpr uint32_t carry_of(const float*) { return 0x00800000U; }
ZP_INLINE constexpr uint32_t carry_of(const bf16*) { return 0x0080U; }

template <class T>
void add_one_by_one(const T* x, int64_t n, uint64_t index, HashSum& sum) {
  uint64_t low = 0, high = 0;
  uint32_t carried = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = bits_at(x + i);
    const HashSum one = hash_element(index + static_cast<uint64_t>(i), bits);
    low += one.low;
    high += one.high;
    carried |= (bits + carry_of(x)) ^ bits;
  }
  sum.low += low;
  sum.high += high;
  sum.finite = sum.finite && (carried & sign_of(x)) == 0;
}

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
template <int n>
ZP_INLINE Ints xor_shifted(Ints x) {
  return x ^ shift_right_zeros<n>(x);
}
// first, first + step, … in the lanes.
ZP_INLINE Ints stepped(uint32_t first, uint32_t step) {
  int32_t words[kLanes];
  for (int64_t l = 0; l < kLanes; ++l)
    words[l] = static_cast<int32_t>(first + static_cast<uint32_t>(l) * step);
  return load(words);
}

// Elements that are asked of memory ahead of their turn: a line's arithmetic is long enough that the
// processor by itself sees only few lines ahead, too few where memory is far.
constexpr int64_t kAhead = 1024;

struct Lanes {
  Ints low, high;
};

// The end of hash_element for half of the lanes: r and s are 64-bit lanes.
ZP_INLINE void finish(Ints r, Ints s, Lanes& sums) {
  sums.low = sum64(sums.low, r ^ shift_right64<29>(s));
  sums.high = sum64(sums.high, s ^ shift_right64<31>(r));
}

// hash_element from a and b on. Products are made of even words and of odd ones; between the two rounds of
// them a word again belongs to an element each.
ZP_INLINE void add_mixed(Ints a, Ints b, Lanes& sums) {
  const Ints a_factor = word(0xd6e8feb9U), b_factor = word(0xa3d8a1e7U);
  const Ints p_even = multiply64(a, a_factor), p_odd = multiply64(high_to_low(a), a_factor);
  const Ints q_even = multiply64(b, b_factor), q_odd = multiply64(high_to_low(b), b_factor);
  const Ints c = low_words(p_even, p_odd) ^ high_words(q_even, q_odd);
  const Ints d = low_words(q_even, q_odd) ^ high_words(p_even, p_odd);
  const Ints c_factor = word(0x94d049bbU), d_factor = word(0xbf58476dU);
  const Ints e = xor_shifted<16>(c), f = xor_shifted<14>(d);
  finish(sum_above_even(multiply64(e, c_factor), d), sum_above_even(multiply64(f, d_factor), c), sums);
  finish(sum_above_odd(multiply64(high_to_low(e), c_factor), d),
         sum_above_odd(multiply64(high_to_low(f), d_factor), c), sums);
}

ZP_INLINE uint64_t total(Ints x) {
  uint64_t lanes[kLanes / 2];
  __builtin_memcpy(lanes, &x, sizeof(lanes));
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

// A run within which the upper word of the index does not change.
template <class T>
void add_run(const T* x, int64_t n, uint64_t index, HashSum& sum) {
  constexpr auto kStep = static_cast<uint32_t>(kLanes);
  const auto lo = static_cast<uint32_t>(index);
  const auto hi = static_cast<uint32_t>(index >> 32);
  Ints a_key = stepped(lo * 0x9e3779b1U, 0x9e3779b1U);
  Ints b_key = stepped(lo * 0xc2b2ae3dU + hi * 0x27d4eb2fU, 0xc2b2ae3dU);
  const Ints a_step = word(kStep * 0x9e3779b1U), b_step = word(kStep * 0xc2b2ae3dU);
  const Ints a_high = word(hi * 0x85ebca77U), offset = word(0x7f4a7c15U);
  const Ints carry = word(carry_of(x));
  Lanes sums{splat(0), splat(0)};
  Ints carried = splat(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    __builtin_prefetch(x + i + kAhead);  // beyond the run's end it does nothing
    const Ints bits = words_at(x + i);
    carried = or_unequal(carried, bits + carry, bits);
    add_mixed(xor_shifted<15>(xor3(bits, a_key, a_high)), xor_shifted<13>((bits + offset) ^ b_key), sums);
    a_key = a_key + a_step;
    b_key = b_key + b_step;
  }
  sum.low += total(sums.low);
  sum.high += total(sums.high);
  int32_t lanes[kLanes];
  store(lanes, carried);
  for (const int32_t lane : lanes) {
    sum.finite = sum.finite && (static_cast<uint32_t>(lane) & sign_of(x)) == 0;
  }
  add_one_by_one(x + i, n - i, index + static_cast<uint64_t>(i), sum);
}

#else

template <class T>
void add_run(const T* x, int64_t n, uint64_t index, HashSum& sum) {
  add_one_by_one(x, n, index, sum);
}

#endif

// Cut where the index's upper word changes.
template <class T>
void add_block(const T* x, int64_t n, uint64_t index, HashSum& sum) {
  while (n > 0) {
    const auto left = static_cast<int64_t>((uint64_t{1} << 32) - (index & 0xffffffffU));
    const int64_t now = left < n ? left : n;
    add_run(x, now, index, sum);
    x += now;
    n -= now;
    index += static_cast<uint64_t>(now);
  }
}

}  // namespace

void run(HostContext& context, const HashRun& call) {
  const int64_t n = call.x.length().n;
  const uint64_t index = (static_cast<uint64_t>(call.kind) << 48) + static_cast<uint64_t>(call.logical);
  const std::unique_ptr<HashSum[]> of_worker(new HashSum[static_cast<size_t>(context.pool.threads())]);
  HashSum* const sums = of_worker.get();
  with_type(call.x.type(), [&](auto zero) {
    const auto* x = call.x.read<decltype(zero)>();
    context.pool.parallel_for((n + kBlock - 1) / kBlock, [=](int64_t b, int worker) {
      const int64_t begin = b * kBlock, end = begin + kBlock;
      add_block(x + begin, (end < n ? end : n) - begin, index + static_cast<uint64_t>(begin), sums[worker]);
    });
  });
  for (int w = 0; w < context.pool.threads(); ++w) *call.sum += sums[w];
}

}  // namespace zp::kernels::ZP_ISA
