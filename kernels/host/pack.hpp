// Packing: rows or columns of a matrix copied into panels as the microkernel reads them, bf16 widened, by
// transposing squares of 8 x 8 where the source runs along k. Panels are padded with zeros in m and n only,
// never in k, because fma(0, 0, -0) is +0.
#pragma once

#include <cstdint>

#include "kernels/host/simd.hpp"

namespace zp::kernels::ZP_ISA {

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

#if ZP_ISA_AVX512
struct Eight {
  __m256 v;
};
ZP_INLINE Eight no_elements() { return {_mm256_setzero_ps()}; }
ZP_INLINE Eight load_eight(const float* p) { return {_mm256_loadu_ps(p)}; }
ZP_INLINE Eight load_eight(const uint16_t* p) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16))};
}
ZP_INLINE void store(float* p, Eight a) { _mm256_storeu_ps(p, a.v); }
#else
using Eight = Floats;
ZP_INLINE Eight no_elements() { return splat(0.0F); }
ZP_INLINE Eight load_eight(const float* p) { return load(p); }
ZP_INLINE Eight load_eight(const uint16_t* p) { return load_widened(p); }
#endif

// rows[i] holds elements 0 … 7 of row i; afterwards of column i.
ZP_INLINE void transpose(Eight (&rows)[8]) {
#if ZP_ISA_AVX512 || ZP_ISA_AVX2
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

// Stores the first `width` elements.
template <int64_t width>
ZP_INLINE void store_front(float* p, Eight a) {
  float elements[8];
  store(elements, a);
  __builtin_memcpy(p, elements, width * sizeof(float));
}

// Eight k of `count` ≤ 8 rows, transposed into to[k·width + row]; the rows to kept ≤ 8 are zero. Where they
// are the first of a panel, each store but the last may run over into the next k, which is stored after it.
template <int64_t width, int64_t kept, class T>
ZP_INLINE void pack_square(const Operand<T>& from, int64_t count, float* to) {
  Eight square[8];
  if (count >= 8) {
    for (int64_t r = 0; r < 8; ++r) square[r] = load_eight(from.data + r * from.row_step);
  } else {
    for (int64_t r = 0; r < 8; ++r) {
      square[r] = r < count ? load_eight(from.data + r * from.row_step) : no_elements();
    }
  }
  transpose(square);
  constexpr bool kFirst = kept == 8 || kept == width;
  for (int64_t k = 0; k < 8; ++k) {
    if (kept == 8 || (kFirst && k < 7)) {
      store(to + k * width, square[k]);
    } else {
      store_front<kept>(to + k * width, square[k]);
    }
  }
}

// One k of `width` rows that lie side by side.
template <int64_t width, class T>
ZP_INLINE void pack_run(const T* from, float* to) {
  constexpr int64_t kEights = width / 8 * 8;
  for (int64_t r = 0; r < kEights; r += 8) store(to + r, load_eight(from + r));
  for (int64_t r = kEights; r < width; ++r) to[r] = widened(from[r]);
}

// Packs `rows` (at most width) rows of `depth` elements into to[k·width + row]; absent rows are zero.
// `ahead`: rows of the next panel, whose cache lines are asked for meanwhile.
template <int64_t width, class T>
void pack(Operand<T> from, int64_t rows, int64_t depth, float* to, int64_t ahead = 0) {
  int64_t k = 0;
  if (rows == width && from.row_step == 1) {
    for (; k < depth; ++k) pack_run<width>(from.data + k * from.k_step, to + k * width);
    return;
  }
  if (from.k_step == 1) {
    for (; k + 8 <= depth; k += 8) {
      if (k % (64 / static_cast<int64_t>(sizeof(T))) == 0) {
        for (int64_t r = 0; r < ahead; ++r) __builtin_prefetch(from.at(width + r, k).data);
      }
      constexpr int64_t kEights = width / 8 * 8;
      for (int64_t r = 0; r < kEights; r += 8) {
        pack_square<width, 8>(from.at(r, k), rows - r, to + k * width + r);
      }
      if constexpr (kEights < width) {
        pack_square<width, width - kEights>(from.at(kEights, k), rows - kEights, to + k * width + kEights);
      }
    }
  }
  for (; k < depth; ++k) {
    for (int64_t r = 0; r < rows; ++r) to[k * width + r] = widened(*from.at(r, k).data);
    for (int64_t r = rows; r < width; ++r) to[k * width + r] = 0.0F;
  }
}

// Packs `rows` rows into consecutive panels of `width`.
template <int64_t width, class T>
void pack_panels(Operand<T> from, int64_t rows, int64_t depth, float* to) {
  int64_t r = 0;
  if (from.row_step == 1) {  // four panels at a time, so that a cache line is read once
    for (; r + 4 * width <= rows; r += 4 * width, to += 4 * width * depth) {
      for (int64_t k = 0; k < depth; ++k) {
        const T* p = from.at(r, k).data;
        for (int64_t i = 0; i < 4; ++i) pack_run<width>(p + i * width, to + (i * depth + k) * width);
      }
    }
  }
  for (; r < rows; r += width, to += width * depth) {
    const int64_t left = rows - r - width;
    pack<width>(from.at(r, 0), left < 0 ? left + width : width, depth, to, left < width ? left : width);
  }
}

}  // namespace zp::kernels::ZP_ISA
