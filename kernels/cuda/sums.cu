// Sums that are whole numbers, so that blocks add to them in any order: squares of gradients in blocks of 64
// (kernels/norm.hpp), and both hashes (kernels/hash.hpp). All are handed to the host.
#include "kernels/cuda/elements.cuh"
#include "kernels/exact_words.hpp"

namespace zp::kernels::cuda {
namespace {

constexpr int kBlock = static_cast<int>(kNormBlock);
constexpr int kSquareThreads = 128;
constexpr int kSquareWarps = kSquareThreads / kWarp;
// At most 2²⁰ threads add their limbs of 32 bits: each limb's sum stays far below 2⁶⁴, as ExactSum asks.
constexpr int64_t kMostSquareBlocks = 2048;
static_assert(kMostSquareBlocks * kSquareThreads <= int64_t{1} << 20);

// A warp takes 32 blocks of 64 at a time: it brings them into shared memory as they lie, then each lane sums
// one of them, ascending. Squares of fp32 are exact in fp64, so only the additions round. A row of shared
// memory is one longer than a block, so that lanes read from different banks.
template <class T>
__global__ void __launch_bounds__(kSquareThreads) square_sum(const T* x, int64_t length, HandedOver* handed) {
  __shared__ float staged[kSquareWarps][kWarp][kBlock + 1];
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  auto& rows = staged[threadIdx.x / kWarp];
  const int64_t warp = int64_t{blockIdx.x} * kSquareWarps + threadIdx.x / kWarp;
  const int64_t warps = int64_t{gridDim.x} * kSquareWarps;
  constexpr int kAll = kWarp * kBlock;
  ExactWords sum;
  for (int64_t first = warp * kAll; first < length; first += warps * kAll) {
    const int count = static_cast<int>(length - first < kAll ? length - first : kAll);
    for (int i = lane; i < count; i += kWarp) rows[i / kBlock][i % kBlock] = widen(x[first + i]);
    __syncwarp();
    const int mine = count - lane * kBlock;  // elements of this lane's block, and of those behind it
    if (mine > 0) {
      double squares = 0.0;
      for (int k = 0; k < (mine < kBlock ? mine : kBlock); ++k) {
        const auto wide = static_cast<double>(rows[lane][k]);
        squares += wide * wide;
      }
      sum.add(squares);
    }
    __syncwarp();  // before the rows are brought anew
  }
  // The limbs of a saturated sum are those that ExactSum sends to other ranks.
  for (int limb = 0; limb < 6; ++limb) {
    unsigned long long mine = sum.words[limb / 2] >> (32 * (limb % 2)) & 0xffffffffU;
    if (sum.saturated) mine = limb == 5 ? 1ULL << 30 : 0;
    const unsigned long long all = sum_lanes(mine);
    if (lane == 0 && all != 0) atomicAdd(&handed->limbs[limb], all);
  }
}

__device__ inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
__device__ inline uint32_t bits_of(bf16 x) { return x.bits; }
// Sign excluded: what is at or above this is Inf or NaN.
__device__ inline bool is_finite(float x) { return (bits_of(x) & 0x7fffffffU) < 0x7f800000U; }
__device__ inline bool is_finite(bf16 x) { return (bits_of(x) & 0x7fffU) < 0x7f80U; }

// Added up over a warp: what each thread has hashed.
__device__ inline void hand_over_hash(const HashSum& sum, unsigned long long not_finite, HandedOver* handed) {
  if (not_finite != 0) atomicAdd(&handed->not_finite, not_finite);
  const unsigned long long low = sum_lanes(sum.low), high = sum_lanes(sum.high);
  if (threadIdx.x % kWarp != 0) return;
  atomicAdd(&handed->hash[0], low);
  atomicAdd(&handed->hash[1], high);
}

// So many elements a thread, where there are as many: the sum over a warp costs as much as hashing several.
constexpr int64_t kHashedByThread = 8;

template <class T>
__global__ void __launch_bounds__(kThreads)
    hash_run(const T* x, int64_t length, uint64_t index, HandedOver* handed) {
  const int64_t threads = int64_t{gridDim.x} * kThreads;
  HashSum sum;
  unsigned long long not_finite = 0;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < length; i += threads) {
    sum += hash_element(index + static_cast<uint64_t>(i), bits_of(x[i]));
    not_finite += is_finite(x[i]) ? 0 : 1;
  }
  hand_over_hash(sum, not_finite, handed);
}

// A block of threads takes whole blocks of the index, so that a thread's keys stay the same.
template <class T>
__global__ void __launch_bounds__(kThreads)
    replica_hash_run(const T* x, int64_t length, uint64_t index, HandedOver* handed) {
  constexpr int kOfThread = static_cast<int>(kReplicaBlock) / kThreads;
  ReplicaKeys keys[kOfThread];
#pragma unroll
  for (int k = 0; k < kOfThread; ++k) keys[k] = replica_keys(threadIdx.x + k * kThreads);
  const auto first = static_cast<int64_t>(index / kReplicaBlock);
  HashSum sum;
  unsigned long long not_finite = 0;
  for (int64_t b = first + blockIdx.x;; b += gridDim.x) {
    const int64_t begin = b * kReplicaBlock - static_cast<int64_t>(index);  // of the block, in x
    if (begin >= length) break;
    uint64_t low = 0, high = 0;
#pragma unroll
    for (int k = 0; k < kOfThread; ++k) {
      const int64_t i = begin + threadIdx.x + k * kThreads;
      if (i < 0 || i >= length) continue;
      const uint64_t word = replica_word(bits_of(x[i]));
      low += keys[k].low * word;
      high += keys[k].high * word;
      not_finite += is_finite(x[i]) ? 0 : 1;
    }
    const ReplicaFactors factors = replica_factors(static_cast<uint64_t>(b));
    sum.low += factors.low * low;
    sum.high += factors.high * high;
  }
  hand_over_hash(sum, not_finite, handed);
}

}  // namespace

void run(const Context& context, const SquareSum& call) {
  context.begin_hand_over();
  const int64_t length = call.grads.length().n;
  const Grid grid{.x = at_most(blocks_for(length, int64_t{kSquareThreads} * kBlock), kMostSquareBlocks),
                  .threads = kSquareThreads};
  with_type(call.grads.type(), [&]<class T>(T) {
    launch(context, grid, square_sum<T>, input<T>(call.grads), length, context.handed);
  });
  std::array<int64_t, 6> limbs{};
  const HandedOver& sums = context.hand_over();
  for (size_t i = 0; i < limbs.size(); ++i) limbs[i] = static_cast<int64_t>(sums.limbs[i]);
  call.sum->add_limbs(limbs);
}

void run(const Context& context, const HashRun& call) {
  context.begin_hand_over();
  const int64_t length = call.x.length().n;
  const uint64_t index = (static_cast<uint64_t>(call.kind) << 48) + static_cast<uint64_t>(call.logical);
  const bool replica = call.function == HashFunction::replica;
  // One more block than there are whole ones: a run may begin within a block.
  const int64_t blocks = replica && length > 0 ? blocks_for(length, kReplicaBlock) + 1
                                               : blocks_for(length, kThreads * kHashedByThread);
  with_type(call.x.type(), [&]<class T>(T) {
    launch(context, {.x = at_most(blocks, kMostBlocks)}, replica ? replica_hash_run<T> : hash_run<T>,
           input<T>(call.x), length, index, context.handed);
  });
  const HandedOver& sums = context.hand_over();
  *call.sum += HashSum{.low = sums.hash[0], .high = sums.hash[1], .finite = sums.not_finite == 0};
}

}  // namespace zp::kernels::cuda
