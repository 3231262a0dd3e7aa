// Reductions of a row over 32 virtual lanes, so that every ISA gives the same bits (design 3.2).
#pragma once

#include "kernels/host/formulas.hpp"

namespace zp::kernels::ZP_ISA {

// How a term of a row reduction reads its elements: all lanes of a vector or of two, or the last few.
struct Whole {
  ZP_INLINE Floats operator()(const float* p) const { return load(p); }
};
struct Pair {
  ZP_INLINE Twice<Floats> operator()(const float* p) const { return {load(p), load(p + kLanes)}; }
};
struct Part {
  int64_t count;
  ZP_INLINE Floats operator()(const float* p) const { return load_part(p, count); }
};

// As Part, of a row that has room for whole vectors: its missing lanes read as anything.
struct Front {
  int64_t count;
  ZP_INLINE Floats operator()(const float* p) const { return load(p); }
};

// Element i goes to lane i mod 32, each lane from +0 in order of i; then lanes are folded (l, l+16), 8, 4,
// 2, 1. term(read, i, lanes) returns `lanes` with the elements from i on taken in, as many as it has lanes;
// it reads memory through `read` only.
//   sum:  row_lanes(n, [&](auto read, int64_t i, auto lanes) { return lanes + read(x + i); })
template <class Last = Part, class Term>
ZP_INLINE float row_lanes(int64_t n, Term term) {
  constexpr int64_t kVectors = 32 / kLanes;
  Twice<Floats> pairs[kVectors / 2];  // apart from `lanes`: what a variable indexes is kept in memory
  for (int64_t j = 0; j < kVectors / 2; ++j) pairs[j] = {splat(0.0F), splat(0.0F)};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int64_t j = 0; j < kVectors / 2; ++j) pairs[j] = term(Pair{}, i + 2 * kLanes * j, pairs[j]);
  }
  Floats lanes[kVectors];
  for (int64_t j = 0; j < kVectors / 2; ++j) {
    lanes[2 * j] = pairs[j].one;
    lanes[2 * j + 1] = pairs[j].two;
  }
  for (int64_t j = 0; i < n; ++j, i += kLanes) {
    if (i + kLanes <= n) {
      lanes[j] = term(Whole{}, i, lanes[j]);
    } else {
      lanes[j] = select(first_lanes(n - i), term(Last{n - i}, i, lanes[j]), lanes[j]);
    }
  }
  return folded(lanes);
}

// Two such sums at once: term(read, i, lanes) takes one vector into both halves of `lanes`.
template <class Term>
ZP_INLINE Twice<float> row_lanes_twice(int64_t n, Term term) {
  constexpr int64_t kVectors = 32 / kLanes;
  Twice<Floats> sums[kVectors];
  for (int64_t j = 0; j < kVectors; ++j) sums[j] = {splat(0.0F), splat(0.0F)};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int64_t j = 0; j < kVectors; ++j) sums[j] = term(Whole{}, i + kLanes * j, sums[j]);
  }
  Floats ones[kVectors], twos[kVectors];
  for (int64_t j = 0; j < kVectors; ++j) {
    ones[j] = sums[j].one;
    twos[j] = sums[j].two;
  }
  for (int64_t j = 0; i < n; ++j, i += kLanes) {
    const int64_t count = n - i < kLanes ? n - i : kLanes;
    const Twice<Floats> old{ones[j], twos[j]};
    const Twice<Floats> taken = count == kLanes ? term(Whole{}, i, old) : term(Part{count}, i, old);
    ones[j] = select(first_lanes(count), taken.one, ones[j]);
    twos[j] = select(first_lanes(count), taken.two, twos[j]);
  }
  return {folded(ones), folded(twos)};
}

inline float row_sum(const float* x, int64_t n) {
  return row_lanes(n, [x](auto read, int64_t i, auto lanes) { return lanes + read(x + i); });
}

// The largest of n ≥ 1 elements of x·scale, scale > 0: rounding keeps order, so that one product is enough.
// Either zero gives +0, so the order of comparison leaves no trace.
template <class Last = Part>
inline float row_max(const float* x, int64_t n, float scale) {
  Twice<Floats> lanes{splat(x[0]), splat(x[0])};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) lanes = larger(lanes, Pair{}(x + i));
  for (; i + kLanes <= n; i += kLanes) lanes.one = larger(lanes.one, load(x + i));
  if (i < n) lanes.two = select(first_lanes(n - i), larger(lanes.two, Last{n - i}(x + i)), lanes.two);
  return largest(larger(lanes.one, lanes.two)) * scale + 0.0F;
}

}  // namespace zp::kernels::ZP_ISA
