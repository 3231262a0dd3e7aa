// A vector of elements at a time from and to memory of either float type, and loops over blocks of
// independent outputs. What every row and element kernel is made of.
#pragma once

#include <string_view>

#include "harness/base/type.hpp"
#include "kernels/host/functions.hpp"
#include "kernels/host/math.hpp"

namespace zp::kernels::ZP_ISA {

// `Pair`, `Whole` and `Part` (math.hpp) say how many lanes lie in memory; missing lanes read as +0.
ZP_INLINE Floats read(Whole, const float* p) { return load(p); }
ZP_INLINE Floats read(Part part, const float* p) { return load_part(p, part.count); }
ZP_INLINE Floats read(Whole, const bf16* p) { return load_widened(&p->bits); }
ZP_INLINE Floats read(Part part, const bf16* p) { return load_widened_part(&p->bits, part.count); }
template <class T>
ZP_INLINE Twice<Floats> read(Pair, const T* p) {
  return {read(Whole{}, p), read(Whole{}, p + kLanes)};
}
ZP_INLINE void write(Whole, float* p, Floats x) { store(p, x); }
ZP_INLINE void write(Part part, float* p, Floats x) { store_part(p, x, part.count); }
ZP_INLINE void write(Whole, bf16* p, Floats x) { store_halves(&p->bits, round_to_bf16(x)); }
ZP_INLINE void write(Part part, bf16* p, Floats x) {
  store_halves_part(&p->bits, round_to_bf16(x), part.count);
}
// What `Front` leaves out is written as +0.
ZP_INLINE Floats read(Front, const float* p) { return load(p); }
ZP_INLINE void write(Front front, float* p, Floats x) {
  store(p, select(first_lanes(front.count), x, splat(0.0F)));
}
template <class T>
ZP_INLINE void write(Pair, T* p, Twice<Floats> x) {
  write(Whole{}, p, x.one);
  write(Whole{}, p + kLanes, x.two);
}

// step(lanes, i) for i = begin, begin+kLanes, …
template <class Last = Part, class Step>
ZP_INLINE void over_lanes(int64_t begin, int64_t end, Step step) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) step(Whole{}, i);
  if (i < end) step(Last{end - i}, i);
}

// The same, as long as there are enough by two vectors at a time: for steps that wait for their own results.
template <class Last = Part, class Step>
ZP_INLINE void over_pairs(int64_t begin, int64_t end, Step step) {
  int64_t i = begin;
  for (; i + 2 * kLanes <= end; i += 2 * kLanes) step(Pair{}, i);
  over_lanes<Last>(i, end, step);
}

// Blocks of elements, of rows or of columns for a thread each. The size of a block never reaches a result.
inline constexpr int64_t kBlock = 16384;  // elements: 64 KiB of fp32

// body(begin, end) for blocks of `block` within [0, count).
template <class Body>
void over_blocks(Pool& pool, int64_t count, int64_t block, const Body& body) {
  pool.parallel_for((count + block - 1) / block, [&](int64_t b) {
    const int64_t end = (b + 1) * block;
    body(b * block, end < count ? end : count);
  });
}

// body(begin, end) over rows of `width` elements, about kBlock elements at a time.
template <class Body>
void over_rows(Pool& pool, int64_t rows, int64_t width, const Body& body) {
  over_blocks(pool, rows, width < kBlock ? kBlock / (width + 1) + 1 : 1, body);
}

// How many rows a body takes, as a constant.
template <int64_t count>
struct Count {
  constexpr operator int64_t() const { return count; }
};

// body(Count, row) for rows begin … end-1, `group` at a time and then one by one.
template <int64_t group, class Body>
ZP_INLINE void in_groups(int64_t begin, int64_t end, const Body& body) {
  int64_t row = begin;
  for (; row + group <= end; row += group) body(Count<group>{}, row);
  for (; row < end; ++row) body(Count<1>{}, row);
}

// body(begin, end) over columns, one block for each thread, cut at cache lines of 16 floats.
template <class Body>
void over_columns(Pool& pool, int64_t columns, const Body& body) {
  if (columns == 0) return;
  const int64_t share = (columns + pool.threads() - 1) / pool.threads();
  over_blocks(pool, columns, (share + 15) / 16 * 16, body);
}

// body(zero) with a zero of the C++ type that `type` names.
template <class Body>
void with_type(Type type, const Body& body) {
  switch (type) {
    case Type::f32: return body(float{});
    case Type::bf16: return body(bf16{});
    case Type::i32:
    case Type::i64: break;
  }
  fail(Exit::internal, "a kernel was given integers for numbers");
}

}  // namespace zp::kernels::ZP_ISA
