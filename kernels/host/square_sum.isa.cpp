// Sums of squares in blocks of 64 (kernels/norm.hpp). Squares of fp32 are exact in fp64, so only the
// additions round; several blocks advance side by side, each in its own order.
#include <memory>

#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

constexpr int64_t kSideBySide = 8;

ZP_INLINE double widened(const float* x) { return static_cast<double>(*x); }
ZP_INLINE double widened(const bf16* x) {
  return static_cast<double>(__builtin_bit_cast(float, static_cast<uint32_t>(x->bits) << 16));
}

// `blocks` whole blocks from x on.
template <int64_t blocks, class T>
ZP_INLINE void add_blocks(const T* x, ExactSum& sum) {
  double squares[blocks] = {};
  for (int64_t i = 0; i < kNormBlock; ++i) {
    for (int64_t b = 0; b < blocks; ++b) {
      const double value = widened(x + b * kNormBlock + i);
      squares[b] += value * value;
    }
  }
  for (int64_t b = 0; b < blocks; ++b) sum.add(squares[b]);
}

template <class T>
void add_run(const T* x, int64_t n, ExactSum& sum) {
  int64_t i = 0;
  for (; i + kSideBySide * kNormBlock <= n; i += kSideBySide * kNormBlock)
    add_blocks<kSideBySide>(x + i, sum);
  for (; i + kNormBlock <= n; i += kNormBlock) add_blocks<1>(x + i, sum);
  if (i == n) return;
  double squares = 0.0;
  for (; i < n; ++i) squares += widened(x + i) * widened(x + i);
  sum.add(squares);
}

}  // namespace

void run(HostContext& context, const SquareSum& call) {
  require(call.sum != nullptr, "square sum: there is a sum to add to");
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
