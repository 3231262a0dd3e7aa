// The state hash of a run of elements (kernels/hash.hpp). AVX2 and AVX-512: a vector of elements at a
// time, in the words of hash_element.
#include "kernels/host/hash_words.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

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
    __builtin_prefetch(x + i + kHashedAhead);  // beyond the run's end it does nothing
    const Ints bits = words_at(x + i);
    carried = or_unequal(carried, bits + carry, bits);
    add_mixed(xor_shifted<15>(xor3(bits, a_key, a_high)), xor_shifted<13>((bits + offset) ^ b_key), sums);
    a_key = a_key + a_step;
    b_key = b_key + b_step;
  }
  sum.low += total(sums.low);
  sum.high += total(sums.high);
  sum.finite = sum.finite && (any_of(carried) & sign_of(x)) == 0;
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
  if (call.function == HashFunction::replica) return run_replica_hash(context, call);
  over_hashed(context, call,
              [](const auto* x, int64_t n, uint64_t index, HashSum& sum) { add_block(x, n, index, sum); });
}

}  // namespace zp::kernels::ZP_ISA
