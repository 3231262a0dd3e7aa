// A Tag as one number of a message-passing library, which bounds such numbers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "harness/transport/transport.hpp"

namespace zp::transport {

// Sequence in the upper bits, tensor in the lower ones, each by its remainder: messages are confused only
// where both agree, and then they are 2^sequence_bits collectives apart.
class TagPacking {
 public:
  explicit TagPacking(int largest) {
    const int bits = std::bit_width(static_cast<uint32_t>(largest) + 1) - 1;
    tensor_bits_ = std::min(12, bits / 2);
    sequence_bits_ = bits - tensor_bits_;
  }
  int pack(const Tag& tag) const {
    return (low(tag.sequence, sequence_bits_) << tensor_bits_) | low(int64_t{tag.tensor} + 1, tensor_bits_);
  }

 private:
  static int low(int64_t number, int bits) { return static_cast<int>(number & ((int64_t{1} << bits) - 1)); }

  int tensor_bits_ = 0, sequence_bits_ = 0;
};

}  // namespace zp::transport
