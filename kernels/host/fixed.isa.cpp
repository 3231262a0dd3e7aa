// Gradients in fixed point: from fp32 to multiples of 2⁻⁴⁴ and back, and sums of integers, which are the same
// in any order.
#include "kernels/fixed.hpp"
#include "kernels/arguments.hpp"
#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

constexpr int64_t kFixedTile = 512;

[[noreturn]] void fail_at_first(const float* from, int64_t terms) {
  int64_t at = 0;
  while (fits_fixed(from[at], static_cast<double>(terms))) ++at;
  fail_to_fixed(at, from[at], terms);
}

void add_tile(int64_t* tile, const int64_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) tile[i] = sum_fixed(tile[i], x[i]);
}

}  // namespace

void run(HostContext& context, const ToFixed& call) {
  const int64_t n = call.from.length().n;
  const float* from = call.from.read<float>();
  int64_t* to = call.to.write<int64_t>();
  const auto terms = static_cast<double>(call.terms);
  const bool adds = call.write == Write::accumulate;
  over_blocks(context.pool, n, kBlock, [=, &call](int64_t begin, int64_t end) {
    bool all_hold = true;
    for (int64_t i = begin; i < end; ++i) all_hold &= fits_fixed(from[i], terms);
    if (!all_hold) fail_at_first(from, call.terms);
    if (adds) {
      for (int64_t i = begin; i < end; ++i) to[i] = sum_fixed(to[i], to_fixed(from[i]));
    } else {
      for (int64_t i = begin; i < end; ++i) to[i] = to_fixed(from[i]);
    }
  });
}

void run_integer_fold(HostContext& context, const Fold& call) {
  const int64_t n = call.out.length().n;
  const bool stays = call.out.type() == Type::i64;
  for (const View& view : call.inputs) static_cast<void>(view.read<int64_t>());  // waits, and checks the type
  int64_t* whole = stays ? call.out.write<int64_t>() : nullptr;
  float* out = stays ? nullptr : call.out.write<float>();
  over_blocks(context.pool, n, kFixedTile, [=, &call](int64_t begin, int64_t end) {
    int64_t tile[kFixedTile] = {};
    // Every input has been read before the first element is written, so `out` may be one of them.
    for (const View& view : call.inputs)
      add_tile(tile, static_cast<const int64_t*>(view.raw()) + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) {
      if (stays) {
        whole[i] = tile[i - begin];
      } else {
        out[i] = from_fixed(tile[i - begin]) / call.divisor;
      }
    }
  });
}

}  // namespace zp::kernels::ZP_ISA
