// What kernels compute under emulation: indices, barriers, warps, shared memory, asynchronous copies,
// atomics, bf16; and that a missing barrier or wait shows in the values.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "correctness/cuda_emulator/checked.hpp"
#include "correctness/cuda_emulator/lab.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::lab {
namespace {

using emulated::Settings;

constexpr std::uint64_t kSeeds = 6;

// In every order of threads and blocks that a seed gives: 0 is the natural one.
class EverySeed : public testing::TestWithParam<std::uint64_t> {
 protected:
  EverySeed() { emulated::configure(Settings{.seed = GetParam()}); }
  ~EverySeed() override { emulated::configure(Settings{}); }
};

INSTANTIATE_TEST_SUITE_P(Seeds, EverySeed, testing::Range(std::uint64_t{0}, kSeeds));

// Numbers whose sums are exact in any order, different at every index.
std::vector<float> numbers(std::size_t length) {
  std::vector<float> made(length);
  for (std::size_t i = 0; i < length; ++i)
    made[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 4;
  return made;
}

template <class T>
void bring(T* to, const std::vector<T>& from, cudaStream_t stream) {
  must(cudaMemcpyAsync(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice, stream));
}

template <class T>
std::vector<T> fetch(const T* from, std::size_t length, cudaStream_t stream) {
  std::vector<T> to(length);
  must(cudaMemcpyAsync(to.data(), from, length * sizeof(T), cudaMemcpyDeviceToHost, stream));
  must(cudaStreamSynchronize(stream));
  return to;
}

int differing(const std::vector<float>& got, const std::vector<float>& expected) {
  int differ = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) differ += got[i] == expected[i] ? 0 : 1;
  return differ;
}

TEST_P(EverySeed, RunsEveryThreadOfEveryBlockOnce) {
  const TestStream stream;
  const dim3 grid(3, 2, 2);
  const dim3 block(5, 4, 3);
  constexpr std::size_t kThreads = 12 * 60;
  const OnDevice<std::uint32_t> places(kThreads);
  must(where_am_i(places, grid, block, stream));
  const auto got = fetch<std::uint32_t>(places, kThreads, stream);
  for (unsigned at = 0; at < kThreads; ++at) {
    const unsigned b = at / 60;
    const unsigned t = at % 60;
    const unsigned expected =
        100000 * (b % 3) + 10000 * (b / 3 % 2) + 1000 * (b / 6) + 100 * (t % 5) + 10 * (t / 5 % 4) + t / 20;
    ASSERT_EQ(got[at], expected) << at;
  }
}

int wrong_sums(decltype(block_sums) launch) {
  constexpr int kBlocks = 3;
  constexpr std::size_t kLength = 5000;
  const TestStream stream;
  const OnDevice<float> from(kLength), sums(kBlocks);
  const auto given = numbers(kLength);
  bring<float>(from, given, stream);
  must(launch(from, sums, kLength, kBlocks, stream));
  std::vector<float> expected(kBlocks);
  for (std::size_t i = 0; i < kLength; ++i) expected[i / 256 % kBlocks] += given[i];
  return differing(fetch<float>(sums, kBlocks, stream), expected);
}

int wrong_products(decltype(multiply) launch, int n) {
  const auto size = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  const TestStream stream;
  const OnDevice<float> a(size), b(size), c(size);
  const auto left = numbers(size);
  auto right = numbers(2 * size);
  right.erase(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(size));
  bring<float>(a, left, stream);
  bring<float>(b, right, stream);
  must(launch(a, b, c, n, stream));
  std::vector<float> expected(size);
  const auto width = static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < width; ++k) sum = std::fmaf(left[i * width + k], right[k * width + j], sum);
      expected[i * width + j] = sum;
    }
  }
  return differing(fetch<float>(c, size, stream), expected);
}

TEST_P(EverySeed, SumsBlocksByShufflesAndSharedMemory) { EXPECT_EQ(wrong_sums(block_sums), 0); }
TEST_P(EverySeed, MultipliesTilesInSharedMemory) { EXPECT_EQ(wrong_products(multiply, 45), 0); }

TEST(MissingBarrier, ShowsInTheSumsOfSomeSeed) {
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    emulated::configure(Settings{.seed = seed});
    seen += wrong_sums(block_sums_unguarded) > 0 ? 1 : 0;
  }
  EXPECT_GT(seen, 0);
}

TEST(MissingBarrier, ShowsInTheProductsOfSomeSeed) {
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    emulated::configure(Settings{.seed = seed});
    seen += wrong_products(multiply_unguarded, 45) > 0 ? 1 : 0;
  }
  EXPECT_GT(seen, 0);
}

TEST_P(EverySeed, GivesABlockTheDynamicSharedMemoryItAskedFor) {
  const TestStream stream;
  constexpr int kBlock = 96;
  const OnDevice<float> from(2 * kBlock), to(2 * kBlock);
  const auto given = numbers(2 * kBlock);
  bring<float>(from, given, stream);
  must(reverse(from, to, kBlock, 0, stream));
  auto expected = given;
  std::reverse(expected.begin(), expected.begin() + kBlock);
  std::reverse(expected.begin() + kBlock, expected.end());
  EXPECT_EQ(differing(fetch<float>(to, 2 * kBlock, stream), expected), 0);
}

int wrong_copies(Waits waits) {
  constexpr std::size_t kLength = 7 * 1024;
  const TestStream stream;
  const OnDevice<float> from(kLength), to(kLength);
  const auto given = numbers(kLength);
  bring<float>(from, given, stream);
  must(copy_piecewise(from, to, kLength, waits, stream));
  return differing(fetch<float>(to, kLength, stream), given);
}

TEST_P(EverySeed, BringsAsynchronousCopiesByTheirWait) { EXPECT_EQ(wrong_copies(Waits::right), 0); }
TEST_P(EverySeed, LeavesAsynchronousCopiesOutUntilTheirWait) {
  EXPECT_GT(wrong_copies(Waits::none), 0);
  EXPECT_GT(wrong_copies(Waits::too_few), 0);
}

// Worked out by hand from the rules of PTX's shfl, lane by lane where it matters.
TEST_P(EverySeed, ExchangesValuesBetweenLanes) {
  const TestStream stream;
  constexpr std::size_t kLanes = 32;
  const OnDevice<std::uint32_t> out(kLanes * kExchanges);
  must(exchanges(out, kLanes, stream));
  const auto got = fetch<std::uint32_t>(out, kLanes * kExchanges, stream);
  std::uint32_t thirds = 0;
  for (unsigned lane = 4; lane < kLanes; ++lane) thirds |= lane % 3 == 0 ? 1U << lane : 0U;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const auto of = [&](unsigned which) { return got[kExchanges * lane + which]; };
    EXPECT_EQ(of(0), 5U);
    EXPECT_EQ(of(1), lane / 8 * 8 + 1) << "9 is 1 within a group of 8";
    EXPECT_EQ(of(2), lane ^ 3U);
    EXPECT_EQ(of(3), (lane / 8) % 2 == 0 ? lane : lane ^ 12U) << "only an earlier group can be read";
    EXPECT_EQ(of(4), lane + 4 < kLanes ? lane + 4 : lane);
    EXPECT_EQ(of(5), lane % 8 < 2 ? lane + 6 : lane);
    EXPECT_EQ(of(6), lane >= 4 ? lane - 4 : lane);
    EXPECT_EQ(of(7), lane < 4 ? 100 + (lane + 1) % 4 : thirds);
  }
}

TEST_P(EverySeed, CountsWithIntegerAtomics) {
  constexpr int kLength = 1000;
  const TestStream stream;
  std::vector<std::uint32_t> given(kLength);
  std::vector<std::uint32_t> expected(16);
  for (std::uint32_t i = 0; i < kLength; ++i) {
    given[i] = i * 2654435761U >> 20U;
    ++expected[given[i] % 16];
  }
  const OnDevice<std::uint32_t> values(kLength), histogram(16), largest(1);
  bring<std::uint32_t>(values, given, stream);
  must(cudaMemsetAsync(histogram, 0, 16 * sizeof(std::uint32_t), stream));
  must(cudaMemsetAsync(largest, 0, sizeof(std::uint32_t), stream));
  must(counts(values, histogram, largest, kLength, stream));
  EXPECT_EQ(fetch<std::uint32_t>(histogram, 16, stream), expected);
  EXPECT_EQ(fetch<std::uint32_t>(largest, 1, stream).front(), *std::max_element(given.begin(), given.end()));
}

TEST_P(EverySeed, CountsVotesAtABarrier) {
  constexpr std::size_t kThreads = 100;
  const TestStream stream;
  std::vector<int> given(kThreads, 1);
  given[70] = 3;
  given[3] = 2;
  const OnDevice<int> from(kThreads), to(3 * kThreads);
  bring<int>(from, given, stream);
  must(votes(from, to, kThreads, stream));
  const auto got = fetch<int>(to, 3 * kThreads, stream);
  for (std::size_t i = 0; i < kThreads; ++i) {
    ASSERT_EQ(got[3 * i], 2);
    ASSERT_EQ(got[3 * i + 1], 1);
    ASSERT_EQ(got[3 * i + 2], 1);
  }
}

// Nearest even, by integers alone.
unsigned short nearest_even(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

TEST(Bf16, RoundsToNearestEven) {
  constexpr int kLength = 1 << 14;
  emulated::configure(Settings{});
  const TestStream stream;
  std::mt19937 random(1);
  std::vector<float> given(kLength);
  for (float& value : given) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  given[0] = std::bit_cast<float>(0x3f808000U);  // halfway, down to even
  given[1] = std::bit_cast<float>(0x3f818000U);  // halfway, up to even
  const OnDevice<float> from(kLength);
  const OnDevice<unsigned short> to(kLength);
  bring<float>(from, given, stream);
  must(rounded(from, to, kLength, stream));
  const auto got = fetch<unsigned short>(to, kLength, stream);
  for (std::size_t i = 0; i < kLength; ++i) ASSERT_EQ(got[i], nearest_even(given[i])) << given[i];
}

}  // namespace
}  // namespace zp::lab
