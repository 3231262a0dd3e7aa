// Matrix product in the contract's order: every element is one thread's chain of fma over k ascending, cut at
// k ≡ 0 mod 512. A block makes one square tile of C, a thread 8 x 8 of its elements in registers; operands
// come in tiles 16 deep through shared memory, the next one copied while one is multiplied. No term exists at
// an index ≥ k.
#include <cuda_pipeline.h>

#include <type_traits>

#include "kernels/cuda/elements.cuh"

namespace zp::kernels::cuda {
namespace {

constexpr int kDepth = 16;      // of an operand's tile, along k
constexpr int kThreadTile = 8;  // rows and columns of a thread: two groups of four, half a tile apart
constexpr int kGroup = 4;
constexpr int kPad = 4;  // floats behind each row of a tile: rows stay 16-byte aligned
constexpr int kBytes = 16;
static_assert(kPanelDepth % kDepth == 0, "a chain ends with a tile");

// An operand as (count x k): element (i, k) stands at data[i·stride + k] (along) or data[k·stride + i].
template <class T>
struct Operand {
  const T* data;
  int64_t count, k, stride;
  bool along;
  bool aligned;  // every row of memory begins at a multiple of 16 bytes
};

template <int tile>
using Panel = float[kDepth][tile + kPad];

template <int tile>
inline constexpr int kTileThreads = tile / kThreadTile*(tile / kThreadTile);

// Of operands that pass through one, a tile as it lies in memory: 16 bytes at a time, which the thread that
// copied them turns or widens into a panel.
template <int tile>
using Buffers = Panel<tile>[2];

__device__ inline void copy_async(float* to, const float* from, int bytes) {
  __pipeline_memcpy_async(to, from, static_cast<size_t>(bytes));
}

// 16 bytes of an operand: 4 elements of fp32, or 8 of bf16, two a word.
template <class T>
struct Words;

template <>
struct Words<float> {
  static constexpr int kRun = 4;
  Vector<float, kRun> held;
  __device__ float at(int i) const { return held.of[i]; }
};

template <>
struct __attribute__((may_alias, aligned(kBytes))) Words<bf16> {
  static constexpr int kRun = 8;
  uint32_t of[kRun / 2];
  __device__ float at(int i) const {
    return __builtin_bit_cast(float, i % 2 == 0 ? of[i / 2] << 16 : of[i / 2] & 0xffff0000U);
  }
};

// Elements first … first + tile - 1 at k … k + 15 of an operand that must be turned or widened: copied by
// copy() to the second buffer, 16 bytes at once where rows are aligned (and so are whole runs), complete
// after
// __pipeline_wait_prior; from there brought into the first one by settle(), once nobody reads it any more.
// Where no element exists +0 stands, which no result sees.
template <int tile, class T>
struct StagedLoader {
  using Run = Words<T>;
  static constexpr int kThreadsHere = kTileThreads<tile>, kRun = Run::kRun;
  static constexpr int kRuns = tile * kDepth / kRun / kThreadsHere;
  static_assert(tile % (kThreadsHere / 2) == 0 && kThreadsHere % (tile / kRun) == 0);

  __device__ static void copy(const Operand<T>& x, int64_t first, int64_t k, Buffers<tile>& to) {
    const int count = within(x.count - first, tile), depth = within(x.k - k, kDepth);
    const T* corner = x.data + (x.along ? first * x.stride + k : k * x.stride + first);
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const Place place(run, x.along);
      const bool exists = place.i < count && place.depth < depth;
      const T* from =
          corner + (x.along ? place.i * x.stride + place.depth : place.depth * x.stride + place.i);
      T* staged = in(to, run);
      if (std::is_same_v<T, float> || x.aligned) {
        __pipeline_memcpy_async(staged, exists ? from : x.data, kBytes, exists ? 0 : kBytes);
      } else {
        const int more = exists ? (x.along ? depth - place.depth : count - place.i) : 0;
#pragma unroll
        for (int j = 0; j < kRun; ++j) staged[j] = j < more ? from[j] : T{};
      }
    }
  }

  __device__ static void settle(const Operand<T>& x, Buffers<tile>& to) {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const Place place(run, x.along);
      const Run words = *reinterpret_cast<const Run*>(in(to, run));
#pragma unroll
      for (int j = 0; j < kRun; ++j) {
        if (x.along) {
          to[0][place.depth + j][place.i] = words.at(j);
        } else {
          to[0][place.depth][place.i + j] = words.at(j);
        }
      }
    }
  }

 private:
  __device__ static int within(int64_t count, int most) {
    return static_cast<int>(count < most ? count : most);
  }
  // A thread's own bytes of the second buffer.
  __device__ static T* in(Buffers<tile>& to, int run) {
    return reinterpret_cast<T*>(&to[1]) + (static_cast<int>(threadIdx.x) + run * kThreadsHere) * kRun;
  }

  // Where the first element of a run goes. Along k a warp has two runs of 16 rows: whole sectors of memory,
  // and of fp32 every lane stores to a bank of its own.
  struct Place {
    int depth, i;
    __device__ Place(int run, bool along) {
      constexpr int kRunsAcross = tile / kRun;
      const int thread = static_cast<int>(threadIdx.x);
      depth = along ? (thread % 2 + run * kThreadsHere / (2 * tile) * 2) * kRun
                    : thread / kRunsAcross + run * (kThreadsHere / kRunsAcross);
      i = along ? thread / 2 + run * kThreadsHere / 2 % tile : thread % kRunsAcross * kRun;
    }
  };
};

// The same of an operand of either type. fp32 that need not be turned, or is not aligned, is copied straight
// to where it is read, and then two panels take turns.
template <int tile, class T>
struct Loader {
  __device__ static bool stages(const Operand<T>&) { return true; }
  __device__ static void copy(const Operand<T>& x, int64_t first, int64_t k, Buffers<tile>& to, int) {
    StagedLoader<tile, T>::copy(x, first, k, to);
  }
};

template <int tile>
struct Loader<tile, float> {
  static constexpr int kThreadsHere = kTileThreads<tile>;

  __device__ static bool stages(const Operand<float>& x) { return x.along && x.aligned; }
  __device__ static void copy(const Operand<float>& x, int64_t first, int64_t k, Buffers<tile>& to,
                              int turn) {
    if (stages(x)) {
      StagedLoader<tile, float>::copy(x, first, k, to);
    } else if (x.along) {
      along(x, first, k, to[turn]);
    } else {
      across(x, first, k, to[turn]);
    }
  }

 private:
  // A warp copies 8 k of 4 rows, likewise. Loops stay loops: an address for every step would take the
  // registers of the chains.
  __device__ static void along(const Operand<float>& x, int64_t first, int64_t k, Panel<tile>& to) {
    constexpr int kRun = 8, kRowsAtOnce = kThreadsHere / kRun;
    const int depth = static_cast<int>(threadIdx.x) % kRun;
    int i = static_cast<int>(threadIdx.x) / kRun;
    const float* from = x.data + (first + i) * x.stride + k + depth;
#pragma unroll 1
    for (; i < tile; i += kRowsAtOnce, from += kRowsAtOnce * x.stride) {
#pragma unroll
      for (int run = 0; run < kDepth; run += kRun) {
        if (k + depth + run >= x.k) continue;
        if (first + i < x.count) {
          copy_async(&to[depth + run][i], from + run, sizeof(float));
        } else {
          to[depth + run][i] = 0.0F;
        }
      }
    }
  }

  __device__ static void across(const Operand<float>& x, int64_t first, int64_t k, Panel<tile>& to) {
    constexpr int kGroupsInRow = tile / kGroup, kRowsAtOnce = kThreadsHere / kGroupsInRow;
    const int i = static_cast<int>(threadIdx.x) % kGroupsInRow * kGroup;
    int depth = static_cast<int>(threadIdx.x) / kGroupsInRow;
    const float* from = x.data + (k + depth) * x.stride + first + i;
    const bool whole = x.aligned && first + i + kGroup <= x.count;
#pragma unroll 1
    for (; depth < kDepth && k + depth < x.k; depth += kRowsAtOnce, from += kRowsAtOnce * x.stride) {
      if (whole) {
        copy_async(&to[depth][i], from, kBytes);
        continue;
      }
#pragma unroll 1
      for (int j = 0; j < kGroup; ++j) {
        if (first + i + j < x.count) {
          copy_async(&to[depth][i + j], from + j, sizeof(float));
        } else {
          to[depth][i + j] = 0.0F;
        }
      }
    }
  }
};

// Blocks at work on one processor: as many as its registers hold where a thread has 128 of them, or 160 in
// small tiles, which bring more of bf16 each.
template <int tile>
[[maybe_unused]] inline constexpr int kBlocksAtWork = 65536 /
                                                      ((tile == 128 ? 128 : 160) * kTileThreads<tile>);

template <class T>
struct Product {
  Operand<float> a;
  Operand<T> b;
  float* c;
  bool aligned;  // rows of c likewise
  bool accumulate;
};

// The same pointer, of which the compiler does not know that. Addresses made of it are computed where they
// are needed; kept from one use to the next, they would take registers of the chains.
__device__ inline float* forgotten(float* p) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(p));
#endif
  return p;
}

// A thread's elements of C, and where they stand. Lanes of a warp make a patch of 4 x 8 groups, so that they
// share what they read from shared memory.
template <int tile>
struct Chains {
  float of[kThreadTile][kThreadTile] = {};
  int row, column;  // of the first group, in the tile

  __device__ Chains() {
    constexpr int kPatchRows = 4, kPatchColumns = 8;
    constexpr int kPatches = tile / kGroup / 2 / kPatchColumns;  // side by side in half a tile
    const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    row = (warp / kPatches * kPatchRows + lane / kPatchColumns) * kGroup;
    column = (warp % kPatches * kPatchColumns + lane % kPatchColumns) * kGroup;
  }

  // One term of every chain.
  __device__ void step(const float* a, const float* b) {
    float left[kThreadTile], right[kThreadTile];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto x = read<kGroup>(a + row + half * (tile / 2));
      const auto y = read<kGroup>(b + column + half * (tile / 2));
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        left[half * kGroup + j] = x.of[j];
        right[half * kGroup + j] = y.of[j];
      }
    }
#pragma unroll
    for (int i = 0; i < kThreadTile; ++i) {
#pragma unroll
      for (int j = 0; j < kThreadTile; ++j) of[i][j] = fmaf(left[i], right[j], of[i][j]);
    }
  }

  // Finished chains go to C, which they overwrite or are added to; the next ones start from +0.
  template <class T>
  __device__ void flush(const Product<T>& p, int64_t first_row, int64_t first_column, bool adds) {
    const int64_t n = p.b.count;
    const int64_t rows = p.a.count - first_row - row, columns = n - first_column - column;
    float* to = forgotten(p.c + (first_row + row) * n + first_column + column);
#pragma unroll
    for (int i = 0; i < kThreadTile; ++i) {
      const int down = i / kGroup * (tile / 2) + i % kGroup;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        constexpr int kRight = tile / 2;
        if (down < rows) {
          flush_group(p.aligned, to + half * kRight, columns - half * kRight, &of[i][half * kGroup], adds);
        }
      }
      to = forgotten(to + (i == kGroup - 1 ? tile / 2 - kGroup + 1 : 1) * n);
    }
  }

 private:
  __device__ static void flush_group(bool aligned, float* to, int64_t columns, float* chains, bool adds) {
    if (aligned && columns >= kGroup) {
      Vector<float, kGroup> sums{};
      if (adds) sums = read<kGroup>(to);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) sums.of[j] = adds ? sums.of[j] + chains[j] : chains[j];
      write(to, sums);
    } else {
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        if (j < columns) to[j] = adds ? to[j] + chains[j] : chains[j];
      }
    }
#pragma unroll
    for (int j = 0; j < kGroup; ++j) chains[j] = 0.0F;
  }
};

template <int tile, class T>
__global__ void __launch_bounds__(kTileThreads<tile>, kBlocksAtWork<tile>) gemm(Product<T> p) {
  __shared__ __align__(16) Buffers<tile> a;
  __shared__ __align__(16) Buffers<tile> b;
  const int64_t row = int64_t{blockIdx.x} * tile, column = int64_t{blockIdx.y} * tile;
  using LoaderA = Loader<tile, float>;
  using LoaderB = Loader<tile, T>;
  const bool stages_a = LoaderA::stages(p.a), stages_b = LoaderB::stages(p.b);
  Chains<tile> chains;
  const int64_t depth = p.a.k;
  const auto copy = [&](int64_t k, int turn) {
    LoaderA::copy(p.a, row, k, a, turn);
    LoaderB::copy(p.b, column, k, b, turn);
    __pipeline_commit();
  };
  const auto arrive = [&] {
    __pipeline_wait_prior(0);
    if (stages_a || stages_b) __syncthreads();  // the last use of the first panels is over
    if (stages_a) StagedLoader<tile, float>::settle(p.a, a);
    if (stages_b) StagedLoader<tile, T>::settle(p.b, b);
    __syncthreads();
  };
  bool adds = p.accumulate;
  if (depth > 0) {
    copy(0, 0);
    arrive();
  }
  int turn = 0;
  for (int64_t k = 0; k < depth; k += kDepth, turn ^= 1) {
    const bool more = k + kDepth < depth;
    if (more) copy(k + kDepth, turn ^ 1);
    const Panel<tile>&left = a[stages_a ? 0 : turn], &right = b[stages_b ? 0 : turn];
    if (k + kDepth <= depth) {
#pragma unroll
      for (int i = 0; i < kDepth; ++i) chains.step(left[i], right[i]);
    } else {
      for (int i = 0; i < static_cast<int>(depth - k); ++i) chains.step(left[i], right[i]);
    }
    if (more) arrive();
    if (more && (k + kDepth) % kPanelDepth == 0) {
      chains.flush(p, row, column, adds);
      adds = true;
    }
  }
  chains.flush(p, row, column, adds);
}

template <class T>
bool rows_are_aligned(const T* data, int64_t stride) {
  return reinterpret_cast<uintptr_t>(data) % kBytes == 0 &&
         stride * static_cast<int64_t>(sizeof(T)) % kBytes == 0;
}

// The operand of `count` rows or columns; `turned` where the other order than its own is stored.
template <class T>
Operand<T> operand(const T* data, int64_t count, int64_t k, bool along) {
  const int64_t stride = along ? k : count;
  return {data, count, k, stride, along, rows_are_aligned(data, stride)};
}

template <int tile, class T>
void launch_gemm(const Context& context, const Product<T>& p) {
  launch(context,
         {.x = blocks_for(p.a.count, tile), .y = blocks_for(p.b.count, tile), .threads = kTileThreads<tile>},
         gemm<tile, T>, p);
}

// With fewer large tiles than this, processors would stand idle: small ones are four times as many.
constexpr int64_t kFewTiles = 264;

}  // namespace

void run(const Context& context, const Gemm& call) {
  if (call.m == 0 || call.n == 0) return;
  with_type(call.b.type(), [&]<class T>(T) {
    float* c = output<float>(call.c);
    const Product<T> p{
        .a = operand(input<float>(call.a), call.m, call.k, call.a_stored == Transpose::no),
        .b = operand(input<T>(call.b), call.n, call.k, call.b_stored == Transpose::yes),
        .c = c,
        .aligned = rows_are_aligned(c, call.n),
        .accumulate = call.write == Write::accumulate,
    };
    const int64_t large_tiles = blocks_for(call.m, 128) * blocks_for(call.n, 128);
    if (large_tiles < kFewTiles) {
      launch_gemm<64>(context, p);
    } else {
      launch_gemm<128>(context, p);
    }
  });
}

}  // namespace zp::kernels::cuda
