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

ZP_INLINE Eight load_as_float(const float* x) { return load_eight(x); }
ZP_INLINE Eight load_as_float(const bf16* x) { return load_eight(&x->bits); }

#if ZP_ISA_AVX512
struct Chains {
  __m512d v;
};
ZP_INLINE Chains no_squares() { return {_mm512_setzero_pd()}; }
ZP_INLINE void add_squares(Chains& chains, Eight a) {
  const __m512d x = _mm512_cvtps_pd(a.v);
  chains.v = _mm512_fmadd_pd(x, x, chains.v);
}
ZP_INLINE void store(double* p, Chains a) { _mm512_storeu_pd(p, a.v); }
#elif ZP_ISA_AVX2
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

// kSideBySide whole blocks from x on: two chains, so that one goes on while the other's sums are on their
// way.
template <class T>
ZP_INLINE void add_blocks(const T* x, ExactSum& sum) {
  static_assert(kSideBySide == 16);
  Chains low = no_squares(), high = no_squares();
  for (int64_t i = 0; i < kNormBlock; i += 8) {
    add_eight(x + i, low);
    add_eight(x + 8 * kNormBlock + i, high);
  }
  double squares[kSideBySide];
  store(squares, low);
  store(squares + 8, high);
  for (const double block : squares) sum.add(block);
}

// One whole block.
template <class T>
ZP_INLINE void add_block(const T* x, ExactSum& sum) {
  double squares = 0.0;
  for (int64_t i = 0; i < kNormBlock; ++i) squares += widened(x + i) * widened(x + i);
  sum.add(squares);
}

template <class T>
void add_run(const T* x, int64_t n, ExactSum& sum) {
  int64_t i = 0;
  for (; i + kSideBySide * kNormBlock <= n; i += kSideBySide * kNormBlock) add_blocks(x + i, sum);
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
