// Blocks of a matrix product: packing rows or columns into panels, and the microkernel that multiplies two
// panels in registers. An element's chain runs over k in order inside one call; panels are padded with zeros
// in m and n only, never in k, because fma(0, 0, -0) is +0.
#pragma once

#include <cstdint>

#include "kernels/host/simd.hpp"

namespace zp::kernels::ZP_ISA {

inline constexpr int64_t kTileRows = 6;
inline constexpr int64_t kTileColumns = 16;

// What becomes of a finished chain.
enum class Into { store, add };

// A matrix as its packer sees it: element (r, k) of the operand at data[r·row_step + k·k_step], one step
// being 1.
template <class T>
struct Operand {
  const T* data;
  int64_t row_step, k_step;

  ZP_INLINE Operand at(int64_t row, int64_t k) const {
    return {data + row * row_step + k * k_step, row_step, k_step};
  }
};

ZP_INLINE float widened(float x) { return x; }
ZP_INLINE float widened(uint16_t bits) { return __builtin_bit_cast(float, uint32_t{bits} << 16); }
ZP_INLINE F32x8 load_as_float(const float* p) { return load(p); }
ZP_INLINE F32x8 load_as_float(const uint16_t* p) { return load_widened(p); }

// rows[i] holds elements 0 … 7 of row i; afterwards of column i.
ZP_INLINE void transpose(F32x8 (&rows)[8]) {
#if ZP_ISA_AVX2
  __m256 pairs[8], fours[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i].v, rows[i + 1].v);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i].v, rows[i + 1].v);
  }
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i].v = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    rows[i + 4].v = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
#else
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < i; ++j) {
      const float kept = rows[i].v[j];
      rows[i].v[j] = rows[j].v[i];
      rows[j].v[i] = kept;
    }
  }
#endif
}

// Stores the first `width` lanes.
template <int64_t width>
ZP_INLINE void store_front(float* p, F32x8 a) {
  float lanes[8];
  store(lanes, a);
  __builtin_memcpy(p, lanes, width * sizeof(float));
}

// Eight k of up to `lanes` rows, transposed into to[k·width + row]; absent rows are zero. Each store but the
// last may run over into the next k, which is stored after it.
template <int64_t width, int64_t lanes, class T>
ZP_INLINE void pack_square(const Operand<T>& from, int64_t rows, float* to) {
  F32x8 square[8];
  for (int64_t r = 0; r < 8; ++r) {
    square[r] = r < lanes && r < rows ? load_as_float(from.data + r * from.row_step) : splat(0.0F);
  }
  transpose(square);
  for (int64_t k = 0; k < 7; ++k) store(to + k * width, square[k]);
  store_front<lanes>(to + 7 * width, square[7]);
}

// Packs `rows` (at most width) rows of `depth` elements into to[k·width + row]; absent rows are zero.
template <int64_t width, class T>
void pack(Operand<T> from, int64_t rows, int64_t depth, float* to) {
  int64_t k = 0;
  if (rows == width && from.row_step == 1) {
    for (; k < depth; ++k) {
      const T* p = from.data + k * from.k_step;
      if constexpr (width == kTileColumns) {
        store(to + k * width, load_as_float(p));
        store(to + k * width + kLanes, load_as_float(p + kLanes));
      } else {
        for (int64_t r = 0; r < width; ++r) to[k * width + r] = widened(p[r]);
      }
    }
    return;
  }
  if (from.k_step == 1) {
    for (; k + kLanes <= depth; k += kLanes) {
      if constexpr (width == kTileColumns) {
        pack_square<width, kLanes>(from.at(0, k), rows, to + k * width);
        pack_square<width, kLanes>(from.at(kLanes, k), rows - kLanes, to + k * width + kLanes);
      } else {
        pack_square<width, width>(from.at(0, k), rows, to + k * width);
      }
    }
  }
  for (; k < depth; ++k) {
    for (int64_t r = 0; r < rows; ++r) to[k * width + r] = widened(*from.at(r, k).data);
    for (int64_t r = rows; r < width; ++r) to[k * width + r] = 0.0F;
  }
}

// c (6 x 16, rows `step` apart) = or += the chains over k of a[k·6 + i]·b[k·16 + j]. Unrolled by hand into
// named accumulators: as an array, g++ 12 keeps them in memory.
template <Into into>
__attribute__((noinline)) void multiply_tile(int64_t depth, const float* a, const float* b, float* c,
                                             int64_t step) {
  F32x8 c00 = splat(0.0F), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
  F32x8 c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
  const auto row = [](float x, F32x8 b0, F32x8 b1, F32x8& low, F32x8& high) __attribute__((always_inline)) {
    const F32x8 factor = splat(x);
    low = accumulate(factor, b0, low);
    high = accumulate(factor, b1, high);
  };
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    const F32x8 b0 = load(b);
    const F32x8 b1 = load(b + kLanes);
    row(a[0], b0, b1, c00, c01);
    row(a[1], b0, b1, c10, c11);
    row(a[2], b0, b1, c20, c21);
    row(a[3], b0, b1, c30, c31);
    row(a[4], b0, b1, c40, c41);
    row(a[5], b0, b1, c50, c51);
    a += kTileRows;
    b += kTileColumns;
  }
  const auto finish = [ c, step ](int64_t i, F32x8 low, F32x8 high) __attribute__((always_inline)) {
    float* p = c + i * step;
    if constexpr (into == Into::add) {
      low = load(p) + low;
      high = load(p + kLanes) + high;
    }
    store(p, low);
    store(p + kLanes, high);
  };
  finish(0, c00, c01);
  finish(1, c10, c11);
  finish(2, c20, c21);
  finish(3, c30, c31);
  finish(4, c40, c41);
  finish(5, c50, c51);
}

// The same for a tile of which only `rows` x `columns` exist in c.
inline void multiply_edge(Into into, int64_t depth, const float* a, const float* b, float* c, int64_t step,
                          int64_t rows, int64_t columns) {
  float tile[kTileRows * kTileColumns];
  multiply_tile<Into::store>(depth, a, b, tile, kTileColumns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float& to = c[i * step + j];
      const float chain = tile[i * kTileColumns + j];
      to = into == Into::add ? to + chain : chain;
    }
  }
}

// c (rows x columns) from one panel of columns and as many panels of rows as are needed, each `depth` deep.
inline void multiply_panels(Into into, int64_t depth, const float* a, const float* b, float* c, int64_t step,
                            int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i += kTileRows, a += kTileRows * depth, c += kTileRows * step) {
    if (rows - i < kTileRows || columns < kTileColumns) {
      multiply_edge(into, depth, a, b, c, step, rows - i < kTileRows ? rows - i : kTileRows, columns);
    } else if (into == Into::add) {
      multiply_tile<Into::add>(depth, a, b, c, step);
    } else {
      multiply_tile<Into::store>(depth, a, b, c, step);
    }
  }
}

// Packs `rows` rows into consecutive panels of six.
template <class T>
void pack_rows(Operand<T> from, int64_t rows, int64_t depth, float* to) {
  for (int64_t r = 0; r < rows; r += kTileRows, to += kTileRows * depth) {
    pack<kTileRows>(from.at(r, 0), rows - r < kTileRows ? rows - r : kTileRows, depth, to);
  }
}

}  // namespace zp::kernels::ZP_ISA
