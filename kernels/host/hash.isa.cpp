// The state hash of a run of elements (kernels/hash.hpp). AVX2: eight elements at a time, in the words of
// hash_element.
#include <memory>

#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

ZP_INLINE uint32_t bits_at(const float* x) { return __builtin_bit_cast(uint32_t, *x); }
ZP_INLINE uint32_t bits_at(const bf16* x) { return x->bits; }
// Sign excluded: what is at or above this is Inf or NaN.
ZP_INLINE constexpr uint32_t infinity_of(const float*) { return 0x7f800000U; }
ZP_INLINE constexpr uint32_t infinity_of(const bf16*) { return 0x7f80U; }
ZP_INLINE constexpr uint32_t magnitude_of(const float*) { return 0x7fffffffU; }
ZP_INLINE constexpr uint32_t magnitude_of(const bf16*) { return 0x7fffU; }

template <class T>
void add_one_by_one(const T* x, int64_t n, uint64_t index, HashSum& sum) {
  uint64_t low = 0, high = 0;
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = bits_at(x + i);
    const HashSum one = hash_element(index + static_cast<uint64_t>(i), bits);
    low += one.low;
    high += one.high;
    const uint32_t magnitude = bits & magnitude_of(x);
    largest = largest < magnitude ? magnitude : largest;
  }
  sum.low += low;
  sum.high += high;
  sum.finite = sum.finite && largest < infinity_of(x);
}

#if ZP_ISA_AVX2

ZP_INLINE __m256i words_at(const float* x) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)); }
ZP_INLINE __m256i words_at(const bf16* x) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
ZP_INLINE __m256i word(uint32_t x) { return _mm256_set1_epi32(static_cast<int32_t>(x)); }
template <int n>
ZP_INLINE __m256i xor_shifted(__m256i x) {
  return _mm256_xor_si256(x, _mm256_srli_epi32(x, n));
}

struct Lanes {
  __m256i low, high;
};

// The second half of hash_element for four elements: p and q are 64-bit lanes.
ZP_INLINE void finish(__m256i p, __m256i q, Lanes& sums) {
  const __m256i c =
      _mm256_xor_si256(p, _mm256_srli_epi64(q, 32));  // in the low words; the high ones are ignored
  const __m256i d = _mm256_xor_si256(q, _mm256_srli_epi64(p, 32));
  const __m256i r =
      _mm256_add_epi64(_mm256_mul_epu32(xor_shifted<16>(c), word(0x94d049bbU)), _mm256_slli_epi64(d, 32));
  const __m256i s =
      _mm256_add_epi64(_mm256_mul_epu32(xor_shifted<14>(d), word(0xbf58476dU)), _mm256_slli_epi64(c, 32));
  sums.low = _mm256_add_epi64(sums.low, _mm256_xor_si256(r, _mm256_srli_epi64(s, 29)));
  sums.high = _mm256_add_epi64(sums.high, _mm256_xor_si256(s, _mm256_srli_epi64(r, 31)));
}

ZP_INLINE uint64_t total(__m256i x) {
  uint64_t lanes[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), x);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

// A run within which the upper word of the index does not change.
template <class T>
void add_run(const T* x, int64_t n, uint64_t index, HashSum& sum) {
  const auto lo = static_cast<uint32_t>(index);
  const auto hi = static_cast<uint32_t>(index >> 32);
  const __m256i steps = lane_numbers().v;
  __m256i a_key = _mm256_add_epi32(word(lo * 0x9e3779b1U), _mm256_mullo_epi32(steps, word(0x9e3779b1U)));
  __m256i b_key = _mm256_add_epi32(word(lo * 0xc2b2ae3dU + hi * 0x27d4eb2fU),
                                   _mm256_mullo_epi32(steps, word(0xc2b2ae3dU)));
  const __m256i a_step = word(8U * 0x9e3779b1U), b_step = word(8U * 0xc2b2ae3dU);
  const __m256i a_high = word(hi * 0x85ebca77U), offset = word(0x7f4a7c15U);
  const __m256i a_factor = word(0xd6e8feb9U), b_factor = word(0xa3d8a1e7U);
  const __m256i infinity = word(infinity_of(x));
  Lanes sums{_mm256_setzero_si256(), _mm256_setzero_si256()};
  __m256i bad = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256i bits = words_at(x + i);
    bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_and_si256(bits, infinity), infinity));
    const __m256i a = xor_shifted<15>(_mm256_xor_si256(_mm256_xor_si256(bits, a_key), a_high));
    const __m256i b = xor_shifted<13>(_mm256_xor_si256(_mm256_add_epi32(bits, offset), b_key));
    a_key = _mm256_add_epi32(a_key, a_step);
    b_key = _mm256_add_epi32(b_key, b_step);
    finish(_mm256_mul_epu32(a, a_factor), _mm256_mul_epu32(b, b_factor), sums);
    finish(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), a_factor),
           _mm256_mul_epu32(_mm256_srli_epi64(b, 32), b_factor), sums);
  }
  sum.low += total(sums.low);
  sum.high += total(sums.high);
  sum.finite = sum.finite && _mm256_testz_si256(bad, bad) != 0;
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
  require(call.sum != nullptr, "hash: there is a sum to add to");
  require(call.logical >= 0 && (call.logical + call.x.length().n) >> 48 == 0,
          "hash: an element's number fits 48 bits");
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
