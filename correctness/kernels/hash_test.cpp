// Both hashes: a run is the sum of its elements for every host and slicing; every flipped bit and every swap
// shows; values that are not finite are reported.
#include "kernels/hash.hpp"

#include <limits>
#include <set>

#include "correctness/kernels/either_type.hpp"

namespace zp::kernels {
namespace {

HashSum element(HashFunction function, uint64_t index, uint32_t bits) {
  return function == HashFunction::state ? hash_element(index, bits) : replica_hash_element(index, bits);
}

HashSum plain_hash(HashFunction function, Type type, const Floats& x, HashKind kind, int64_t logical) {
  HashSum sum;
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t bits = type == Type::bf16 ? round_to_bf16(x[i]).bits : std::bit_cast<uint32_t>(x[i]);
    sum += element(function, (static_cast<uint64_t>(kind) << 48) + static_cast<uint64_t>(logical) + i, bits);
  }
  return sum;
}

HashSum hash_of(HashFunction function, Bench& bench, const View& x, HashKind kind, int64_t logical) {
  HashSum sum;
  HashRun call;
  call.x = x;
  call.function = function;
  call.kind = kind;
  call.logical = logical;
  call.sum = &sum;
  bench.run(call);
  return sum;
}

class EitherHash : public testing::TestWithParam<HashFunction> {};
INSTANTIATE_TEST_SUITE_P(, EitherHash, testing::Values(HashFunction::state, HashFunction::replica),
                         [](const auto& info) {
                           return info.param == HashFunction::state ? "state" : "replica";
                         });

TEST_P(EitherHash, OfARunIsTheSumOfItsElementsForEveryHost) {
  const HashFunction function = GetParam();
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const int64_t n : {0, 1, 7, 8, 9, 31, 33, 65, 1009, 2 * 16384 + 13}) {
      const Floats x = kept_as(type, data(n, 3));
      for (const HashKind kind : {HashKind::param, HashKind::grad}) {
        // The last two cross a change of the index's upper word, once within a group of eight.
        for (const int64_t logical :
             {int64_t{0}, int64_t{5}, int64_t{1007}, (int64_t{1} << 32) - 800, (int64_t{3} << 32) - 16}) {
          const HashSum want = plain_hash(function, type, x, kind, logical);
          for (const Host& host : hosts()) {
            Bench bench(host);
            EXPECT_EQ(hash_of(function, bench, put_as(type, x, bench), kind, logical), want)
                << text_of(host) << " length " << n << " logical " << logical;
          }
        }
      }
    }
  }
}

TEST_P(EitherHash, IsTheSameInAnyPartition) {
  const HashFunction function = GetParam();
  const Floats x = data(1009, 5);
  for (const Host& host : hosts()) {
    Bench bench(host);
    const View whole = bench.put(x);
    const HashSum want = hash_of(function, bench, whole, HashKind::m, 40);
    for (const int64_t slice : {1, 3, 64, 100, 1008}) {
      HashSum total;
      for (int64_t begin = (x.size() - 1) / static_cast<size_t>(slice) * static_cast<size_t>(slice);
           begin >= 0; begin -= slice) {
        const int64_t end = std::min<int64_t>(begin + slice, whole.length().n);
        total += hash_of(function, bench, whole.part({{begin}, {end}}), HashKind::m, 40 + begin);
      }
      EXPECT_EQ(total, want) << text_of(host) << " slice " << slice;
    }
  }
}

TEST_P(EitherHash, ShowsEveryFlippedBitInBothLanes) {
  const HashFunction function = GetParam();
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint64_t index = random_bits(1, i) & 0x4ffffffffffffU;
    const auto bits = static_cast<uint32_t>(random_bits(2, i));
    const HashSum one = element(function, index, bits);
    for (int bit = 0; bit < 32; ++bit) {
      const HashSum flipped = element(function, index, bits ^ (1U << bit));
      EXPECT_NE(one.low, flipped.low) << index << " " << bits << " bit " << bit;
      EXPECT_NE(one.high, flipped.high) << index << " " << bits << " bit " << bit;
    }
    for (int bit = 0; bit < 51; ++bit) {  // and of the index: a value in another element or of another kind
      EXPECT_NE(one, element(function, index ^ (uint64_t{1} << bit), bits))
          << index << " " << bits << " bit " << bit;
    }
  }
}

TEST(Hash, ChangesAboutHalfOfItsBitsWithEachBitOfTheValue) {
  constexpr int kSamples = 4000;
  for (int bit = 0; bit < 32; ++bit) {
    int64_t changed = 0;
    for (uint64_t i = 0; i < kSamples; ++i) {
      const uint64_t index = random_bits(3, i) % 100000000;
      const auto bits = static_cast<uint32_t>(random_bits(4, i));
      const HashSum a = hash_element(index, bits), b = hash_element(index, bits ^ (1U << bit));
      changed += std::popcount(a.low ^ b.low) + std::popcount(a.high ^ b.high);
    }
    const double share = static_cast<double>(changed) / (128.0 * kSamples);
    EXPECT_GT(share, 0.3) << "bit " << bit;
    EXPECT_LT(share, 0.6) << "bit " << bit;
  }
}

TEST_P(EitherHash, ShowsEverySwapOfTwoElements) {
  const HashFunction function = GetParam();
  const Floats x = data(300, 7);
  const auto bits = [&](size_t i) { return std::bit_cast<uint32_t>(x[i]); };
  int swaps = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (bits(i) == bits(j)) continue;
      HashSum right = element(function, i, bits(i)), swapped = element(function, i, bits(j));
      right += element(function, j, bits(j));
      swapped += element(function, j, bits(i));
      EXPECT_NE(right.low, swapped.low) << i << " " << j;
      EXPECT_NE(right.high, swapped.high) << i << " " << j;
      ++swaps;
    }
  }
  EXPECT_GT(swaps, 40000);
}

TEST_P(EitherHash, TellsTheKindsApart) {
  const HashFunction function = GetParam();
  Bench bench({Isa::portable, 1});
  const View x = bench.put(data(100, 9));
  std::vector<HashSum> seen;
  for (const HashKind kind : {HashKind::param, HashKind::master, HashKind::m, HashKind::v, HashKind::grad}) {
    const HashSum hash = hash_of(function, bench, x, kind, 0);
    for (const HashSum& other : seen) EXPECT_NE(hash, other);
    seen.push_back(hash);
  }
}

TEST_P(EitherHash, ReportsWhatIsNotFiniteWhereverItStands) {
  const HashFunction function = GetParam();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const Host& host : hosts()) {
      for (size_t at = 0; at < 21; ++at) {
        for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
          Floats x = data(21, 11);
          x[at] = bad;
          Bench bench(host);
          EXPECT_FALSE(hash_of(function, bench, put_as(type, x, bench), HashKind::param, 0).finite)
              << text_of(host) << at;
        }
      }
      Bench bench(host);
      for (const float largest : {0x1.fep127F, -0x1.fep127F}) {
        EXPECT_TRUE(
            hash_of(function, bench, put_as(type, Floats(21, largest), bench), HashKind::param, 0).finite)
            << text_of(host);
      }
    }
  }
}

// What its promise rests on: a key is never zero, a factor is odd, and each is another's by chance only.
TEST(ReplicaHash, HasKeysAndFactorsAsItsPromiseWantsThem) {
  std::set<uint32_t> keys;
  for (uint32_t r = 0; r < kReplicaBlock; ++r) {
    const ReplicaKeys both = replica_keys(r);
    EXPECT_EQ(both.low & both.high & 1U, 1U);
    keys.insert({both.low, both.high});
  }
  EXPECT_EQ(keys.size(), 2U * kReplicaBlock);
  std::set<uint64_t> factors;
  for (uint64_t b = 0; b < 10'000; ++b) {
    const ReplicaFactors both = replica_factors(b);
    EXPECT_EQ(both.low & both.high & 1U, 1U);
    factors.insert({both.low, both.high});
  }
  EXPECT_EQ(factors.size(), 20'000U);
}

// Elements that are zero count, and so does an error that is the same in many of them, that cancels in their
// sum, or that lies in the same places of two blocks.
TEST(ReplicaHash, ShowsWhatIsMissingAndErrorsThatAreAlike) {
  const auto sum = [](const std::vector<uint32_t>& bits) {
    HashSum all;
    for (size_t i = 0; i < bits.size(); ++i) all += replica_hash_element(700 + i, bits[i]);
    return all;
  };
  const std::vector<uint32_t> right = [] {
    std::vector<uint32_t> bits(5000);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint32_t>(random_bits(5, i / 3));
    return bits;
  }();
  constexpr size_t kOther = kReplicaBlock;  // the same place in the next block
  std::vector<std::vector<uint32_t>> wrong(9, right);
  wrong[0].back() = 0;
  wrong[1] = wrong[0];
  wrong[1].pop_back();
  for (uint32_t& bits : wrong[2]) bits ^= 1U;
  for (uint32_t& bits : wrong[3]) bits ^= 1U << 31U;
  for (size_t i = 0; i < right.size(); ++i) wrong[4][i] += i % 2 == 0 ? 1U : ~0U;
  wrong[5][0] += 1, wrong[5][1] -= 2, wrong[5][2] += 1;
  std::swap(wrong[6][7], wrong[6][7 + kOther]);
  std::swap_ranges(wrong[7].begin() + 324, wrong[7].begin() + 324 + kOther, wrong[7].begin() + 324 + kOther);
  wrong[8][9] ^= 1U << 31U, wrong[8][9 + kOther] ^= 1U << 31U;
  std::vector<HashSum> seen{sum(right)};
  for (const std::vector<uint32_t>& bits : wrong) {
    for (const HashSum& other : seen) {
      EXPECT_NE(sum(bits).low, other.low) << seen.size();
      EXPECT_NE(sum(bits).high, other.high) << seen.size();
    }
    seen.push_back(sum(bits));
  }
}

TEST(Hash, StaysNotFiniteWhenAddedTo) {
  HashSum bad, good;
  bad.finite = false;
  good += bad;
  EXPECT_FALSE(good.finite);
}

TEST(Hash, IsWrittenHighLaneFirst) {
  EXPECT_EQ(to_string(HashSum{.low = 0x0123456789abcdefU, .high = 0xfU, .finite = true}),
            "000000000000000f0123456789abcdef");
}

}  // namespace
}  // namespace zp::kernels
