// One table of kernels with inputs to run them on: tests and benchmarks come from its rows. Every alternative
// of Call has at least one row; a new kernel gets one here.
#pragma once

#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/kernels.hpp"

namespace zp::kernels {

// Shapes of a transformer from which every row takes its own.
struct CaseSizes {
  int64_t batch, sequence, width, heads, vocabulary;
  int64_t parameters;  // of kernels that run over states
  int64_t rows() const { return batch * sequence; }
};
inline constexpr CaseSizes kOddSizes{
    .batch = 2, .sequence = 67, .width = 45, .heads = 3, .vocabulary = 97, .parameters = 4099};
inline constexpr CaseSizes kSmallModelSizes{
    .batch = 4, .sequence = 256, .width = 384, .heads = 6, .vocabulary = 256, .parameters = 4 << 20};

// Owns what a call refers to. Values depend only on the order of the requests and on the rank that they are
// for; long runs of them repeat after kPeriod, a prime.
class CaseMemory {
 public:
  static constexpr int64_t kPeriod = 131'071;

  explicit CaseMemory(Device& device, uint64_t rank = 0) : device_(device), rank_(rank) {}
  CaseMemory(const CaseMemory&) = delete;
  CaseMemory& operator=(const CaseMemory&) = delete;

  // About normal around `centre`.
  View numbers(Type type, int64_t length, float scale = 1.0F, float centre = 0.0F);
  View tokens(int64_t length, int64_t below);
  // In fixed point, of either sign.
  View fixed(int64_t length);
  // For results; holds what the device gives.
  View space(Type type, int64_t length);
  ExactSum* exact_sum() { return &exact_sum_; }
  HashSum* hash_sum() { return &hash_sum_; }

  // Everything that was asked for, in order.
  std::vector<View> views() const;
  Bytes bytes() const;
  // Every bit that the call could have written, inputs included, numbered from the rank's first number on.
  // Meaningful when every result was written.
  HashSum digest() const;

 private:
  uint64_t key() const { return (rank_ << 32U) + buffers_.size(); }

  Device& device_;
  uint64_t rank_;
  std::deque<Buffer> buffers_;
  ExactSum exact_sum_;
  HashSum hash_sum_;
};

struct KernelCase {
  std::string_view name;
  Call (*make)(CaseMemory& memory, const CaseSizes& sizes);
};

std::span<const KernelCase> kernel_cases();

}  // namespace zp::kernels
