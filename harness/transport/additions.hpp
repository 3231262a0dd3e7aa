// What a reduce-scatter computes, whoever moves its pieces: conversion into fixed point, the additions of
// received pieces, and the division.
#pragma once

#include <utility>
#include <vector>

#include "harness/transport/steps.hpp"

namespace zp::transport {

// Of one reduce-scatter. Its views stand under storages of their own: kernels within a collective do not wait
// for it.
class Additions {
 public:
  Additions(kernels::Table& kernels, int place, const Sum& sum);

  // Of the whole that travels: in fixed point that is the image, in which the buckets of all slices lie side
  // by side.
  const Cuts& cuts() const { return cuts_; }
  View whole() { return whole_.view(); }

  // Converts what is to be summed. `alone`: nobody else contributes, and the sum is the own slice.
  void begin(bool alone);
  // Adds one piece from each of these places to the own contribution to `range` of the whole, in the order of
  // places. The last sum is divided and goes into `mine`.
  void add(std::vector<std::pair<int, View>> pieces, const Range& range, bool last);

 private:
  void convert(bool alone);
  void divide_alone();

  kernels::Table& kernels_;
  int place_;
  Alias source_;                // fp32, where whole_ is its image
  std::vector<Range> sources_;  // of it; none without an image
  int64_t terms_;
  Cuts cuts_;
  Alias whole_, mine_;
  Range own_;
  float divisor_;
};

// What a library sums in a whole's stead: its fixed-point image, where it has one, into which it is converted
// here.
View summed_by_library(kernels::Table& kernels, const View& whole, const FixedPoint& fixed);

// A library's sum into where it is kept, divided and in its type. Copies run on `stream`.
void deliver(kernels::Table& kernels, const View& sum, const View& into, float divisor, Stream* stream);

}  // namespace zp::transport
