// The microkernel: a tile of a matrix product in registers, and products of blocks made of such tiles. An
// element's chain runs over k in order inside one call, from +0.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/host/pack.hpp"

namespace zp::kernels::ZP_ISA {

inline constexpr int64_t kTileVectors = 2;
inline constexpr int64_t kTileRows = kLanes == 16 ? 8 : 6;
inline constexpr int64_t kTileColumns = kTileVectors * kLanes;

// What becomes of a finished chain.
enum class Into { store, add };

// Where a tile finds its rows of A: element (i, k) at data[i + k·step] (across) or data[i·step + k] (along).
enum class Rows { across, along };
struct Left {
  const float* data;
  int64_t step;
};

template <Rows rows>
ZP_INLINE float element(const Left& a, int64_t i) {
  return rows == Rows::across ? a.data[i] : a.data[i * a.step];
}

// Elements of a panel of columns that are asked of memory ahead of their turn.
constexpr int64_t kAhead = 16 * kTileColumns;

// One k. Accumulators are named by constants, never by a variable: as an indexed array, g++ 12 keeps them in
// memory.
template <Rows rows, size_t... tile>
ZP_INLINE void multiply_step(const Left& a, const float* b, Floats* c, std::index_sequence<tile...>) {
  static_assert(kTileVectors == 2);
  const Floats columns[2] = {load(b), load(b + kLanes)};
  ((c[tile] = accumulate(splat(element<rows>(a, tile / 2)), columns[tile % 2], c[tile])), ...);
}

template <Into into, size_t... tile>
ZP_INLINE void finish_tile(const Floats* c, float* to, int64_t step, std::index_sequence<tile...>) {
  const auto finish = [ to, step ](int64_t i, int64_t j, Floats chain) __attribute__((always_inline)) {
    float* p = to + i * step + j * kLanes;
    store(p, into == Into::add ? load(p) + chain : chain);
  };
  (finish(tile / 2, tile % 2, c[tile]), ...);
}

// c (height x kTileColumns, rows `step` apart) = or += the chains over k of a(i, k)·b[k·kTileColumns + j].
template <Rows rows, Into into, int64_t height>
__attribute__((noinline)) void multiply_tile(int64_t depth, Left a, const float* b, float* c, int64_t step) {
  constexpr auto kTile = std::make_index_sequence<static_cast<size_t>(height * kTileVectors)>{};
  Floats chains[height * kTileVectors];
  for (Floats& chain : chains) chain = splat(0.0F);
  for (int64_t i = 0; i < height; ++i) {  // c is written when all of it has come
    __builtin_prefetch(c + i * step, 1);
    __builtin_prefetch(c + i * step + kTileColumns - 1, 1);
  }
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t j = 0; j < kTileColumns; j += 16) __builtin_prefetch(b + kAhead + j);
    multiply_step<rows>(a, b, chains, kTile);
    a.data += rows == Rows::across ? a.step : 1;
    b += kTileColumns;
  }
  finish_tile<into>(chains, c, step, kTile);
}

// The same for a tile of which only `columns` columns exist in c.
template <Rows rows, int64_t height>
void multiply_edge(Into into, int64_t depth, Left a, const float* b, float* c, int64_t step,
                   int64_t columns) {
  float tile[height * kTileColumns];
  multiply_tile<rows, Into::store, height>(depth, a, b, tile, kTileColumns);
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float& to = c[i * step + j];
      const float chain = tile[i * kTileColumns + j];
      to = into == Into::add ? to + chain : chain;
    }
  }
}

// c (count x columns) from one panel of columns, in tiles of `height` rows and, for the rest, of fewer;
// `next` is the distance of two tiles of A.
template <Rows rows, int64_t height>
void multiply_rows(Into into, int64_t depth, Left a, int64_t next, const float* b, float* c, int64_t step,
                   int64_t count, int64_t columns) {
  for (; count >= height; count -= height, a.data += next, c += height * step) {
    if (columns < kTileColumns) {
      multiply_edge<rows, height>(into, depth, a, b, c, step, columns);
    } else if (into == Into::add) {
      multiply_tile<rows, Into::add, height>(depth, a, b, c, step);
    } else {
      multiply_tile<rows, Into::store, height>(depth, a, b, c, step);
    }
  }
  if constexpr (height > 1) {
    constexpr int64_t kLower = height > 4 ? 4 : height / 2;
    const int64_t distance = rows == Rows::across ? kLower : kLower * a.step;
    if (count > 0) multiply_rows<rows, kLower>(into, depth, a, distance, b, c, step, count, columns);
  }
}

// A is packed in panels of `height` rows, `depth` deep.
template <int64_t height = kTileRows>
void multiply_packed(Into into, int64_t depth, const float* a, const float* b, float* c, int64_t step,
                     int64_t rows, int64_t columns) {
  multiply_rows<Rows::across, height>(into, depth, {a, height}, height * depth, b, c, step, rows, columns);
}

// A lies where it lies.
template <Rows rows>
void multiply_unpacked(Into into, int64_t depth, Left a, const float* b, float* c, int64_t step,
                       int64_t count, int64_t columns) {
  const int64_t next = rows == Rows::across ? kTileRows : kTileRows * a.step;
  multiply_rows<rows, kTileRows>(into, depth, a, next, b, c, step, count, columns);
}

}  // namespace zp::kernels::ZP_ISA
