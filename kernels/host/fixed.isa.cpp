// Gradients in fixed point: from fp32 to multiples of 2⁻⁴⁴ and back, and sums of integers, which are the same
// in any order.
#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

constexpr double kUnits = 0x1p44;         // of 1
constexpr double kRounder = 0x1.8p52;     // added to a number below 2⁵¹, leaves whole numbers only
constexpr double kRoundedBelow = 0x1p51;  // above it, every fp32 is whole
constexpr double kBound = 0x1p19;
constexpr int64_t kTile = 512;

ZP_INLINE bool holds(float x, double terms) {
  return __builtin_fabs(static_cast<double>(x)) * terms < kBound;
}

// The product is exact; a sum's rounding is the one to a whole number.
ZP_INLINE int64_t fixed(float x) {
  const double units = static_cast<double>(x) * kUnits;
  const double rounded = (units + kRounder) - kRounder;
  return static_cast<int64_t>(__builtin_fabs(units) < kRoundedBelow ? rounded : units);
}

ZP_INLINE float real(int64_t z) { return static_cast<float>(static_cast<double>(z) * (1.0 / kUnits)); }

// As unsigned numbers: sums that wrap on the way do no harm where the last one does not.
ZP_INLINE int64_t sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

void add_tile(int64_t* tile, const int64_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) tile[i] = sum(tile[i], x[i]);
}

}  // namespace

void run(HostContext& context, const ToFixed& call) {
  const int64_t n = call.from.length().n;
  require_length(call.to, n, "to fixed: to is as long as from");
  require(call.terms > 0, "to fixed: a sum has terms");
  const float* from = call.from.read<float>();
  int64_t* to = call.to.write<int64_t>();
  const auto terms = static_cast<double>(call.terms);
  const bool adds = call.write == Write::accumulate;
  over_blocks(context.pool, n, kBlock, [=, &call](int64_t begin, int64_t end) {
    bool all_hold = true;
    for (int64_t i = begin; i < end; ++i) all_hold &= holds(from[i], terms);
    if (!all_hold) fail_to_fixed(from, n, call.terms);
    if (adds) {
      for (int64_t i = begin; i < end; ++i) to[i] = sum(to[i], fixed(from[i]));
    } else {
      for (int64_t i = begin; i < end; ++i) to[i] = fixed(from[i]);
    }
  });
}

void run_integer_fold(HostContext& context, const Fold& call) {
  const int64_t n = call.out.length().n;
  const bool stays = call.out.type() == Type::i64;
  require(!stays || call.divisor == 1.0F, "integer fold: integers are not divided");
  for (const View& view : call.inputs) {
    require_length(view, n, "integer fold: every input is as long as out");
    static_cast<void>(view.read<int64_t>());  // waits, and checks the type
  }
  int64_t* whole = stays ? call.out.write<int64_t>() : nullptr;
  float* out = stays ? nullptr : call.out.write<float>();
  over_blocks(context.pool, n, kTile, [=, &call](int64_t begin, int64_t end) {
    int64_t tile[kTile] = {};
    // Every input has been read before the first element is written, so `out` may be one of them.
    for (const View& view : call.inputs)
      add_tile(tile, static_cast<const int64_t*>(view.raw()) + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) {
      if (stays) {
        whole[i] = tile[i - begin];
      } else {
        out[i] = real(tile[i - begin]) / call.divisor;
      }
    }
  });
}

}  // namespace zp::kernels::ZP_ISA
