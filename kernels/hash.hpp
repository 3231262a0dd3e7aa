// The state hash of design 3.8: H = sum of mix(index, bits) over logical elements, in two 64-bit lanes. Sums
// wrap, so slices are hashed where they lie and added in any order. mix uses 32x32→64 multiplies, shifts and
// xors only.
//
// [Note: replica hash] Of what a rank holds whole, which is compared and never written down, there is a
// second hash, a fraction of the first one's work: a linear sum. Elements lie in blocks of kReplicaBlock
// by their index; element r of block b adds factor(b)·key(r)·word in both lanes, modulo 2⁶⁴, where word is
// its bits xored with a constant (a zero counts too), keys are random odd numbers of 32 bits and factors
// of 64. One element that differs always shows in both lanes: key·(difference of words) is not zero and
// less than 2⁶⁴, and a product by an odd number keeps that. Any other difference within a block goes
// unseen in a lane for at most one of the 2³¹ keys that one of its elements could have had (Carter and
// Wegman, 1979: linear forms over random keys); sums of blocks are told apart by their factors, which no
// key is known to. The lanes' keys and factors are drawn apart: both miss a difference by a chance of
// about one in 2⁶². Sums of parts are sums of the whole, as they are of the first hash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/base/host_device.hpp"
#include "harness/base/random.hpp"

namespace zp {

// index = kind·2⁴⁸ + logical element.
enum class HashKind : uint8_t { param = 0, master = 1, m = 2, v = 3, grad = 4 };

constexpr std::string_view name_of(HashKind kind) {
  switch (kind) {
    case HashKind::param: return "parameters";
    case HashKind::master: return "masters";
    case HashKind::m: return "first moments";
    case HashKind::v: return "second moments";
    case HashKind::grad: return "averaged gradient";
  }
  return "?";
}

enum class HashFunction : uint8_t { state, replica };

struct HashSum {
  uint64_t low = 0, high = 0;
  bool finite =
      true;  // false once a NaN or Inf was met: such a state is a failure and its hash means nothing

  ZP_HOST_DEVICE HashSum& operator+=(const HashSum& other) {
    low += other.low;
    high += other.high;
    finite = finite && other.finite;
    return *this;
  }
  friend bool operator==(const HashSum&, const HashSum&) = default;
};

template <class A>
void archive(A& a, HashSum& h) {
  a(h.low, h.high, h.finite);
}

// 32 hexadecimal digits, high lane first.
std::string to_string(const HashSum& hash);

// Contribution of one element; `bits` is the value's own bit pattern (16 or 32 bits, zero-extended).
ZP_HOST_DEVICE constexpr HashSum hash_element(uint64_t index, uint32_t bits) {
  const auto lo = static_cast<uint32_t>(index);
  const auto hi = static_cast<uint32_t>(index >> 32);
  // Four multiplies of odd-ish 32-bit words; every input bit reaches both lanes.
  const uint32_t a = bits ^ (lo * 0x9e3779b1U) ^ (hi * 0x85ebca77U);
  const uint32_t b = (bits + 0x7f4a7c15U) ^ (lo * 0xc2b2ae3dU + hi * 0x27d4eb2fU);
  const uint64_t p = uint64_t{a ^ (a >> 15)} * 0xd6e8feb9U;
  const uint64_t q = uint64_t{b ^ (b >> 13)} * 0xa3d8a1e7U;
  const auto c = static_cast<uint32_t>(p ^ (q >> 32));
  const auto d = static_cast<uint32_t>(q ^ (p >> 32));
  const uint64_t r = uint64_t{c ^ (c >> 16)} * 0x94d049bbU + (uint64_t{d} << 32);
  const uint64_t s = uint64_t{d ^ (d >> 14)} * 0xbf58476dU + (uint64_t{c} << 32);
  return {.low = r ^ (s >> 29), .high = s ^ (r >> 31), .finite = true};
}

inline constexpr int64_t kReplicaBlock = 1024;

struct ReplicaKeys {
  uint32_t low, high;
};
ZP_HOST_DEVICE constexpr ReplicaKeys replica_keys(uint32_t in_block) {
  const uint64_t random = mix64(in_block + 0xa0761d6478bd642fULL);
  return {.low = static_cast<uint32_t>(random) | 1U, .high = static_cast<uint32_t>(random >> 32) | 1U};
}

struct ReplicaFactors {
  uint64_t low, high;
};
ZP_HOST_DEVICE constexpr ReplicaFactors replica_factors(uint64_t block) {
  return {.low = mix64(2 * block + 0xe7037ed1a0b428dbULL) | 1U,
          .high = mix64(2 * block + 0x8ebc6af09c88c6e4ULL) | 1U};
}

ZP_HOST_DEVICE constexpr uint32_t replica_word(uint32_t bits) { return bits ^ 0x589965ccU; }

// Contribution of one element to the replica hash.
ZP_HOST_DEVICE constexpr HashSum replica_hash_element(uint64_t index, uint32_t bits) {
  constexpr auto kBlock = static_cast<uint64_t>(kReplicaBlock);
  const ReplicaKeys keys = replica_keys(static_cast<uint32_t>(index % kBlock));
  const ReplicaFactors factors = replica_factors(index / kBlock);
  const uint64_t word = replica_word(bits);
  return {.low = factors.low * (keys.low * word), .high = factors.high * (keys.high * word), .finite = true};
}

}  // namespace zp
