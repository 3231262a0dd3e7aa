// The emulated cuBLASLt's product of matrices. See cublaslt_product.hpp.
#include "correctness/cuda_emulator/cublaslt_product.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "correctness/cuda_emulator/enqueue.hpp"
#include "correctness/cuda_emulator/memory.hpp"

namespace zp::emulated {

float Matrix::at(std::uint64_t row, std::uint64_t column) const {
  const std::uint64_t i = transposed ? column : row, j = transposed ? row : column;
  const std::uint64_t element = j * static_cast<std::uint64_t>(leading) + i;
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[element];
  const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(data)[element]} << 16U;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

namespace {

class Product final : public Operation {
 public:
  explicit Product(const ProductCall& call) : Operation("cublasLtMatmul"), call_(call) {}

  bool step() override {
    if (column_ == 0) begin();
    const std::uint64_t columns = call_.c.columns;
    const std::uint64_t end = std::min(columns, column_ + part_of(columns));
    for (; column_ < end; ++column_) compute_column(column_);
    return column_ == columns;
  }

 private:
  void begin() {
    note_read(call_.a.data, call_.a.bytes());
    note_read(call_.b.data, call_.b.bytes());
    if (call_.beta != 0) note_read(call_.c.data, call_.c.bytes());
    note_write(call_.d, call_.c.bytes());
    note_write(call_.workspace, call_.workspace_bytes);
    poison(call_.workspace, call_.workspace_bytes);
  }

  void compute_column(std::uint64_t column) {
    const std::uint64_t depth = call_.a.column_count();
    right_.resize(depth);
    for (std::uint64_t k = 0; k < depth; ++k) right_[k] = call_.b.at(k, column);
    for (std::uint64_t row = 0; row < call_.c.rows; ++row) {
      float sums[4] = {};
      for (std::uint64_t k = 0; k < depth; ++k) sums[k % 4] += call_.a.at(row, k) * right_[k];
      const float sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
      float* const to = call_.d + column * static_cast<std::uint64_t>(call_.c.leading) + row;
      *to = call_.beta == 0 ? call_.alpha * sum : call_.alpha * sum + call_.beta * call_.c.at(row, column);
    }
  }

  ProductCall call_;
  std::vector<float> right_;
  std::uint64_t column_ = 0;
};

}  // namespace

Operation* make_product(const ProductCall& call) { return new Product(call); }

}  // namespace zp::emulated
