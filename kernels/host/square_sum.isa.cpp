// Sums of squares in blocks of 64 (kernels/norm.hpp). Squares of fp32 are exact in fp64, so only the
// additions round and fma gives their bits; several blocks advance side by side, each in its own order.
#include <memory>

#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"
#include "kernels/host/pack.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

constexpr int64_t kSideBySide = 16;

ZP_INLINE double widened(const float* x) { return static_cast<double>(*x); }
ZP_INLINE double widened(const bf16* x) {
  return static_cast<double>(__builtin_bit_cast(float, static_cast<uint32_t>(x->bits) << 16));
}

#if ZP_ISA_AVX512
// What one step adds of sixteen blocks, a block in each lane: their words side by side, of which a word is
// one fp32 or two bf16.
struct Chains {
  __m512d low, high;
};

ZP_INLINE void add_squares(Chains& chains, __m512 x) {
  const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
  const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
  chains.low = _mm512_fmadd_pd(low, low, chains.low);
  chains.high = _mm512_fmadd_pd(high, high, chains.high);
}
ZP_INLINE void add_words(Chains& chains, const float* /*type*/, __m512 words) { add_squares(chains, words); }
ZP_INLINE void add_words(Chains& chains, const bf16* /*type*/, __m512 words) {
  const __m512i bits = _mm512_castps_si512(words);
  add_squares(chains, _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)));
  add_squares(chains, _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(INT32_MIN >> 15))));
}

// Four words of the blocks first, first + 4, first + 8 and first + 12.
template <class T>
ZP_INLINE __m512 four_words(const T* x, int64_t first) {
  const auto words = [=](int64_t block) {
    return _mm_loadu_ps(reinterpret_cast<const float*>(x + (first + block) * kNormBlock));
  };
  __m512 all = _mm512_castps128_ps512(words(0));
  all = _mm512_mask_broadcast_f32x4(all, 0x00f0, words(4));
  all = _mm512_mask_broadcast_f32x4(all, 0x0f00, words(8));
  return _mm512_mask_broadcast_f32x4(all, 0xf000, words(12));
}

// Asks for a part of the blocks after these, as large as what is taken now: no processor guesses this order.
template <class T>
ZP_INLINE void ask_for_blocks(const T* x, int64_t i) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t j = 0; j < 4; ++j)
    __builtin_prefetch(x + 2 * kSideBySide * kNormBlock + i * kSideBySide + j * kLine);
}

template <class T>
ZP_INLINE void square_blocks(const T* x, double* squares) {
  constexpr int64_t kStep = 16 / static_cast<int64_t>(sizeof(T));
  Chains chains{_mm512_setzero_pd(), _mm512_setzero_pd()};
  for (int64_t i = 0; i < kNormBlock; i += kStep) {
    ask_for_blocks(x, i);
    const __m512 a = four_words(x + i, 0), b = four_words(x + i, 1);
    const __m512 c = four_words(x + i, 2), d = four_words(x + i, 3);
    const __m512d ab_front = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
    const __m512d ab_back = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
    const __m512d cd_front = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
    const __m512d cd_back = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
    add_words(chains, x, _mm512_castpd_ps(_mm512_unpacklo_pd(ab_front, cd_front)));
    add_words(chains, x, _mm512_castpd_ps(_mm512_unpackhi_pd(ab_front, cd_front)));
    add_words(chains, x, _mm512_castpd_ps(_mm512_unpacklo_pd(ab_back, cd_back)));
    add_words(chains, x, _mm512_castpd_ps(_mm512_unpackhi_pd(ab_back, cd_back)));
  }
  _mm512_storeu_pd(squares, chains.low);
  _mm512_storeu_pd(squares + 8, chains.high);
}
#else
ZP_INLINE Eight load_as_float(const float* x) { return load_eight(x); }
ZP_INLINE Eight load_as_float(const bf16* x) { return load_eight(&x->bits); }

#if ZP_ISA_AVX2
struct Chains {
  __m256d low, high;
};
ZP_INLINE Chains no_squares() { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
ZP_INLINE void add_squares(Chains& chains, Eight a) {
  const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(a.v));
  const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(a.v, 1));
  chains.low = _mm256_fmadd_pd(low, low, chains.low);
  chains.high = _mm256_fmadd_pd(high, high, chains.high);
}
ZP_INLINE void store(double* p, Chains a) {
  _mm256_storeu_pd(p, a.low);
  _mm256_storeu_pd(p + 4, a.high);
}
#else
struct Chains {
  double v[8];
};
ZP_INLINE Chains no_squares() { return {}; }
ZP_INLINE void add_squares(Chains& chains, Eight a) {
  for (int l = 0; l < 8; ++l) {
    const auto x = static_cast<double>(a.v[l]);
    chains.v[l] += x * x;
  }
}
ZP_INLINE void store(double* p, Chains a) {
  for (int l = 0; l < 8; ++l) p[l] = a.v[l];
}
#endif

// Adds elements 0 … 7 of eight blocks from x on, a block in each lane.
template <class T>
ZP_INLINE void add_eight(const T* x, Chains& chains) {
  Eight square[8];
  for (int64_t b = 0; b < 8; ++b) square[b] = load_as_float(x + b * kNormBlock);
  transpose(square);
  for (int64_t k = 0; k < 8; ++k) add_squares(chains, square[k]);
}

// Two chains, so that one goes on while the other's sums are on their way.
template <class T>
ZP_INLINE void square_blocks(const T* x, double* squares) {
  Chains low = no_squares(), high = no_squares();
  for (int64_t i = 0; i < kNormBlock; i += 8) {
    add_eight(x + i, low);
    add_eight(x + 8 * kNormBlock + i, high);
  }
  store(squares, low);
  store(squares + 8, high);
}
#endif

// Sums of blocks in limbs of 32 bits, not carried, those of each lane by themselves. Taken in are 0 and what
// lies from 2⁻⁴⁸, below which a block is rounded, to 2¹⁶: more than gradients in use have.
struct Limbs {
  static constexpr int kCount = 4;
  uint64_t of[kCount][kSideBySide] = {};

  // False, and nothing is taken in, where a block lies elsewhere.
  ZP_INLINE bool add(const double* blocks) {
    uint64_t mantissas[kSideBySide], shifts[kSideBySide];
    uint64_t too_far = 0;
    for (int64_t l = 0; l < kSideBySide; ++l) {
      const auto bits = __builtin_bit_cast(uint64_t, blocks[l]);
      const uint64_t some = bits == 0 ? 0 : ~uint64_t{0};
      mantissas[l] = some & ((bits & (kHidden - 1)) | kHidden);
      shifts[l] = some & ((bits >> kMantissaBits) - (kExponentBias + kMantissaBits + kExactUnit));
      too_far |= shifts[l];
    }
    if (too_far >= 64) return false;
    for (int64_t l = 0; l < kSideBySide; ++l) {
      const uint64_t low = mantissas[l] << shifts[l], high = (mantissas[l] >> 1) >> (63 - shifts[l]);
      of[0][l] += low & 0xffffffffU;
      of[1][l] += low >> 32;
      of[2][l] += high & 0xffffffffU;
      of[3][l] += high >> 32;
    }
    return true;
  }
  ZP_INLINE int64_t total(int limb) const {
    uint64_t sum = 0;
    for (const uint64_t lane : of[limb]) sum += lane;
    return static_cast<int64_t>(sum);
  }

 private:
  static constexpr uint64_t kHidden = uint64_t{1} << kMantissaBits;
};
static_assert(kBlock / kNormBlock < (1 << 21), "a limb's sum is below 2⁵³");

// kSideBySide whole blocks from x on.
template <class T>
ZP_INLINE void add_blocks(const T* x, Limbs& limbs, ExactSum& sum) {
  static_assert(kSideBySide == 16);
  double squares[kSideBySide];
  square_blocks(x, squares);
  if (limbs.add(squares)) return;
  for (const double block : squares) sum.add(block);
}

// One whole block.
template <class T>
ZP_INLINE void add_block(const T* x, ExactSum& sum) {
  double squares = 0.0;
  for (int64_t i = 0; i < kNormBlock; ++i) squares += widened(x + i) * widened(x + i);
  sum.add(squares);
}

// At most kBlock elements.
template <class T>
void add_run(const T* x, int64_t n, ExactSum& sum) {
  int64_t i = 0;
  Limbs limbs;
  for (; i + kSideBySide * kNormBlock <= n; i += kSideBySide * kNormBlock) add_blocks(x + i, limbs, sum);
  sum.add_limbs({limbs.total(0), limbs.total(1), limbs.total(2), limbs.total(3), 0, 0});
  for (; i + kNormBlock <= n; i += kNormBlock) add_block(x + i, sum);
  if (i == n) return;
  double squares = 0.0;
  for (; i < n; ++i) squares += widened(x + i) * widened(x + i);
  sum.add(squares);
}

}  // namespace

void run(HostContext& context, const SquareSum& call) {
  const int64_t n = call.grads.length().n;
  const std::unique_ptr<ExactSum[]> of_worker(new ExactSum[static_cast<size_t>(context.pool.threads())]);
  ExactSum* const sums = of_worker.get();
  with_type(call.grads.type(), [&](auto zero) {
    const auto* x = call.grads.read<decltype(zero)>();
    context.pool.parallel_for((n + kBlock - 1) / kBlock, [=](int64_t b, int worker) {
      const int64_t begin = b * kBlock, end = begin + kBlock;
      add_run(x + begin, (end < n ? end : n) - begin, sums[worker]);
    });
  });
  for (int w = 0; w < context.pool.threads(); ++w) call.sum->add_limbs(sums[w].limbs());
}

static_assert(kBlock % kNormBlock == 0, "work is cut between blocks of the norm");

}  // namespace zp::kernels::ZP_ISA
