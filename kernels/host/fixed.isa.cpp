// Gradients in fixed point: from fp32 to multiples of 2⁻⁴⁴ and back, and sums of integers, which are the same
// in any order.
#include "kernels/fixed.hpp"

#include <memory>

#include "kernels/arguments.hpp"
#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"
#include "kernels/host/pack.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

constexpr int64_t kFixedTile = 512;

// Eight numbers in fixed point, in the words of kernels/fixed.hpp.
#if ZP_ISA_AVX512
struct Fixed {
  __m512i v;
};
ZP_INLINE Fixed load_fixed(const int64_t* p) { return {_mm512_loadu_si512(p)}; }
ZP_INLINE void store_fixed(int64_t* p, Fixed a) { _mm512_storeu_si512(p, a.v); }
ZP_INLINE Fixed sum_of(Fixed a, Fixed b) { return {_mm512_add_epi64(a.v, b.v)}; }
ZP_INLINE Fixed to_fixed(Eight x) {  // rounds once, as the sum with a rounder does
  return {_mm512_cvtpd_epi64(_mm512_mul_pd(_mm512_cvtps_pd(x.v), _mm512_set1_pd(kFixedUnits)))};
}
ZP_INLINE Eight from_fixed(Fixed z) {
  return {_mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtepi64_pd(z.v), _mm512_set1_pd(1.0 / kFixedUnits)))};
}
ZP_INLINE Eight quotient(Eight x, float divisor) { return {_mm256_div_ps(x.v, _mm256_set1_ps(divisor))}; }
#elif ZP_ISA_AVX2
struct Fixed {
  __m256i low, high;
};
ZP_INLINE Fixed load_fixed(const int64_t* p) {
  const auto* four = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(four), _mm256_loadu_si256(four + 1)};
}
ZP_INLINE void store_fixed(int64_t* p, Fixed a) {
  auto* four = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(four, a.low);
  _mm256_storeu_si256(four + 1, a.high);
}
ZP_INLINE Fixed sum_of(Fixed a, Fixed b) {
  return {_mm256_add_epi64(a.low, b.low), _mm256_add_epi64(a.high, b.high)};
}
// a's mantissa as an integer, where `rounder` was added to the number.
ZP_INLINE __m256i whole_of(__m256d a, __m256d rounder) {
  return _mm256_sub_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(rounder));
}
// Below 2⁶³: rounded to a multiple of 2³², which is even, and what remains, which is exact, to a whole
// number.
ZP_INLINE __m256i to_fixed(__m128 x) {
  const __m256d units = _mm256_mul_pd(_mm256_cvtps_pd(x), _mm256_set1_pd(kFixedUnits));
  const __m256d upper_rounder = _mm256_set1_pd(0x1.8p84), rounder = _mm256_set1_pd(0x1.8p52);
  const __m256d upper = _mm256_add_pd(units, upper_rounder);
  const __m256d rest = _mm256_sub_pd(units, _mm256_sub_pd(upper, upper_rounder));
  return _mm256_add_epi64(_mm256_slli_epi64(whole_of(upper, upper_rounder), 32),
                          whole_of(_mm256_add_pd(rest, rounder), rounder));
}
ZP_INLINE Fixed to_fixed(Eight x) {
  return {to_fixed(_mm256_castps256_ps128(x.v)), to_fixed(_mm256_extractf128_ps(x.v, 1))};
}
// Halves as the mantissas of 2⁵² and, with its sign turned, of 2⁸⁴; only their sum rounds.
ZP_INLINE __m128 from_fixed(__m256i z) {
  const __m256i low_base = _mm256_castpd_si256(_mm256_set1_pd(0x1p52));
  const __m256i high_base = _mm256_castpd_si256(_mm256_set1_pd(0x1p84 + 0x1p63));
  const __m256i low = _mm256_blend_epi32(z, low_base, 0xaa);
  const __m256i high = _mm256_xor_si256(_mm256_srli_epi64(z, 32), high_base);
  const __m256d upper = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(0x1p84 + 0x1p63 + 0x1p52));
  const __m256d number = _mm256_add_pd(upper, _mm256_castsi256_pd(low));
  return _mm256_cvtpd_ps(_mm256_mul_pd(number, _mm256_set1_pd(1.0 / kFixedUnits)));
}
ZP_INLINE Eight from_fixed(Fixed z) { return {_mm256_set_m128(from_fixed(z.high), from_fixed(z.low))}; }
ZP_INLINE Eight quotient(Eight x, float divisor) { return x / splat(divisor); }
#else
struct Fixed {
  int64_t v[8];
};
ZP_INLINE Fixed load_fixed(const int64_t* p) {
  return each_lane<Fixed>([&](int l) { return p[l]; });
}
ZP_INLINE void store_fixed(int64_t* p, Fixed a) {
  for (int l = 0; l < 8; ++l) p[l] = a.v[l];
}
ZP_INLINE Fixed sum_of(Fixed a, Fixed b) {
  return each_lane<Fixed>([&](int l) { return sum_fixed(a.v[l], b.v[l]); });
}
ZP_INLINE Fixed to_fixed(Eight x) {
  return each_lane<Fixed>([&](int l) { return zp::to_fixed(x.v[l]); });
}
ZP_INLINE Eight from_fixed(Fixed z) {
  return each_lane<Eight>([&](int l) { return zp::from_fixed(z.v[l]); });
}
ZP_INLINE Eight quotient(Eight x, float divisor) { return x / splat(divisor); }
#endif

[[noreturn]] void fail_at_first(const float* from, int64_t terms) {
  int64_t at = 0;
  while (fits_fixed(from[at], static_cast<double>(terms))) ++at;
  fail_to_fixed(at, from[at], terms);
}

// The largest magnitude, as bits: where it fits, all do. NaN is larger than anything.
float largest_magnitude(const float* x, int64_t n) {
  Ints largest = splat(0);
  over_lanes(0, n, [&, magnitude = splat(INT32_MAX)](auto lanes, int64_t i) {
    const Ints bits = bits_of(read(lanes, x + i)) & magnitude;
    largest = select(less(largest, bits), bits, largest);
  });
  int32_t each[kLanes];
  store(each, largest);
  int32_t most = 0;
  for (const int32_t one : each) most = most < one ? one : most;
  return __builtin_bit_cast(float, most);
}

void convert(const float* from, int64_t* to, int64_t n, bool adds) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const Fixed z = to_fixed(load_eight(from + i));
    store_fixed(to + i, adds ? sum_of(load_fixed(to + i), z) : z);
  }
  for (; i < n; ++i) to[i] = sum_fixed(adds ? to[i] : 0, zp::to_fixed(from[i]));
}

struct Integers {
  const int64_t* const* of;
  int64_t count;
};

ZP_INLINE Fixed integers_at(const Integers& inputs, int64_t i) {
  Fixed all = load_fixed(inputs.of[0] + i);
  for (int64_t j = 1; j < inputs.count; ++j) all = sum_of(all, load_fixed(inputs.of[j] + i));
  return all;
}

int64_t integer_at(const Integers& inputs, int64_t i) {
  int64_t all = 0;
  for (int64_t j = 0; j < inputs.count; ++j) all = sum_fixed(all, inputs.of[j][i]);
  return all;
}

// An element is read of every input before it is written, so `out` may be one of them.
void fold_integers(const Integers& inputs, int64_t* out, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + 8 <= end; i += 8) store_fixed(out + i, integers_at(inputs, i));
  for (; i < end; ++i) out[i] = integer_at(inputs, i);
}

void fold_integers(const Integers& inputs, float divisor, float* out, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + 8 <= end; i += 8) store(out + i, quotient(from_fixed(integers_at(inputs, i)), divisor));
  for (; i < end; ++i) out[i] = zp::from_fixed(integer_at(inputs, i)) / divisor;
}

}  // namespace

void run(HostContext& context, const ToFixed& call) {
  const int64_t n = call.from.length().n;
  const float* from = call.from.read<float>();
  int64_t* to = call.to.write<int64_t>();
  const auto terms = static_cast<double>(call.terms);
  const bool adds = call.write == Write::accumulate;
  over_blocks(context.pool, n, kBlock, [=, &call](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kFixedTile) {  // looked at and converted while it is near
      const int64_t length = i + kFixedTile < end ? kFixedTile : end - i;
      if (!fits_fixed(largest_magnitude(from + i, length), terms)) fail_at_first(from, call.terms);
      convert(from + i, to + i, length, adds);
    }
  });
}

void run_integer_fold(HostContext& context, const Fold& call) {
  const int64_t n = call.out.length().n;
  const bool stays = call.out.type() == Type::i64;
  const std::unique_ptr<const int64_t*[]> list(new const int64_t*[call.inputs.size()]);
  for (size_t j = 0; j < call.inputs.size(); ++j) list[j] = call.inputs[j].read<int64_t>();
  const Integers inputs{list.get(), static_cast<int64_t>(call.inputs.size())};
  int64_t* whole = stays ? call.out.write<int64_t>() : nullptr;
  float* out = stays ? nullptr : call.out.write<float>();
  over_blocks(context.pool, n, kBlock, [=, &call](int64_t begin, int64_t end) {
    if (stays) {
      fold_integers(inputs, whole, begin, end);
    } else {
      fold_integers(inputs, call.divisor, out, begin, end);
    }
  });
}

}  // namespace zp::kernels::ZP_ISA
