// The replica hash of a run of elements (kernels/hash.hpp). AVX2 and AVX-512: a vector of elements at a time.
#include "kernels/host/hash_words.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

// Of a block, and as many beyond it as a vector that ends with the block reads in vain.
struct KeyTable {
  uint32_t low[kReplicaBlock + 1], high[kReplicaBlock + 1];
};
constexpr KeyTable make_key_table() {
  KeyTable table{};
  for (int64_t r = 0; r < kReplicaBlock; ++r) {
    const ReplicaKeys keys = replica_keys(static_cast<uint32_t>(r));
    table.low[r] = keys.low;
    table.high[r] = keys.high;
  }
  return table;
}
constexpr KeyTable kKeyTable = make_key_table();

struct BlockSums {
  uint64_t low = 0, high = 0;  // before factors
  uint32_t carried = 0;        // signs that changed: of what is not finite
};

// Elements `at` … at + n-1 of one block.
template <class T>
void add_words_one_by_one(const T* x, int64_t n, int64_t at, BlockSums& sums) {
  uint64_t low = 0, high = 0;
  uint32_t carried = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = bits_at(x + i);
    const uint64_t word = replica_word(bits);
    low += kKeyTable.low[at + i] * word;
    high += kKeyTable.high[at + i] * word;
    carried |= (bits + carry_of(x)) ^ bits;
  }
  sums.low += low;
  sums.high += high;
  sums.carried |= carried;
}

#if ZP_ISA_AVX2 || ZP_ISA_AVX512

ZP_INLINE Ints keys_at(const uint32_t* keys) { return load(reinterpret_cast<const int32_t*>(keys)); }

// Products are of even words; those of odd words come from vectors that begin one word later.
template <class T>
void add_words(const T* x, int64_t n, int64_t at, BlockSums& sums) {
  const Ints mask = word(replica_word(0)), carry = word(carry_of(x));
  Ints low_even = splat(0), low_odd = splat(0), high_even = splat(0), high_odd = splat(0);
  Ints carried = splat(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    __builtin_prefetch(x + i + kHashedAhead);  // beyond the run's end it does nothing
    const Ints bits = words_at(x + i);
    carried = or_unequal(carried, bits + carry, bits);
    const Ints even = bits ^ mask, odd = high_to_low(even);
    const uint32_t *low = kKeyTable.low + at + i, *high = kKeyTable.high + at + i;
    low_even = sum64(low_even, multiply64(even, keys_at(low)));
    low_odd = sum64(low_odd, multiply64(odd, keys_at(low + 1)));
    high_even = sum64(high_even, multiply64(even, keys_at(high)));
    high_odd = sum64(high_odd, multiply64(odd, keys_at(high + 1)));
  }
  sums.low += total(sum64(low_even, low_odd));
  sums.high += total(sum64(high_even, high_odd));
  sums.carried |= any_of(carried);
  add_words_one_by_one(x + i, n - i, at + i, sums);
}

#else

template <class T>
void add_words(const T* x, int64_t n, int64_t at, BlockSums& sums) {
  add_words_one_by_one(x, n, at, sums);
}

#endif

// Cut where blocks of the index end.
template <class T>
void add_replica(const T* x, int64_t n, uint64_t index, HashSum& sum) {
  constexpr auto kEach = static_cast<uint64_t>(kReplicaBlock);
  uint32_t carried = 0;
  while (n > 0) {
    const auto at = static_cast<int64_t>(index % kEach);
    const int64_t left = kReplicaBlock - at, now = left < n ? left : n;
    BlockSums sums;
    add_words(x, now, at, sums);
    const ReplicaFactors factors = replica_factors(index / kEach);
    sum.low += factors.low * sums.low;
    sum.high += factors.high * sums.high;
    carried |= sums.carried;
    x += now;
    n -= now;
    index += static_cast<uint64_t>(now);
  }
  sum.finite = sum.finite && (carried & sign_of(x)) == 0;
}

}  // namespace

void run_replica_hash(HostContext& context, const HashRun& call) {
  over_hashed(context, call,
              [](const auto* x, int64_t n, uint64_t index, HashSum& sum) { add_replica(x, n, index, sum); });
}

}  // namespace zp::kernels::ZP_ISA
