// The emulated cuBLASLt's product of matrices, as work of a stream.
//
// Element (r, c) of D is alpha·s + beta·C, or alpha·s where beta is 0 (C is then not read). s is made of four
// sums: number j adds the products of all k ≡ j mod 4, ascending, from +0, each product rounded to fp32
// before it is added; then (0 + 2) + (1 + 3). That is no order of any kernel of ours, on purpose: what
// computes with this library must not end on our bits by chance. bf16 operands are widened exactly.
#pragma once

#include <cublasLt.h>

#include <cstdint>

#include "correctness/cuda_emulator/stream.hpp"

namespace zp::emulated {

// A matrix as it is stored, column by column.
struct Matrix {
  const void* data = nullptr;
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;  // elements from one column to the next
  bool transposed = false;   // as the operation wants it

  std::uint64_t row_count() const { return transposed ? columns : rows; }
  std::uint64_t column_count() const { return transposed ? rows : columns; }
  std::uint64_t element_bytes() const { return type == CUDA_R_16BF ? 2 : 4; }
  // From the first element to behind the last one.
  std::uint64_t bytes() const {
    return (static_cast<std::uint64_t>(leading) * (columns - 1) + rows) * element_bytes();
  }
  float at(std::uint64_t row, std::uint64_t column) const;
};

struct ProductCall {
  Matrix a, b, c;
  float* d = nullptr;  // stored as c is
  float alpha = 1, beta = 0;
  void* workspace = nullptr;  // scribbled on: nobody else may use it meanwhile
  std::uint64_t workspace_bytes = 0;
};

// Takes the stream's part of it; `call` has been checked.
Operation* make_product(const ProductCall& call);

}  // namespace zp::emulated
