// Memory that a device's buffers gave back and that its pool does not have yet.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/base/quantities.hpp"

namespace zp {

// Blocks, each for a buffer of the same length again: a pool that is asked for memory only when none is left
// here has never more in use than buffers hold at that moment.
class GivenBack {
 public:
  bool empty() const { return blocks_.empty(); }
  void add(void* data, Bytes bytes) { blocks_.push_back({data, bytes}); }
  // The one that came first; null: there is none.
  void* take(Bytes bytes) {
    const auto found = std::ranges::find(blocks_, bytes, &Block::bytes);
    if (found == blocks_.end()) return nullptr;
    void* data = found->data;
    blocks_.erase(found);
    return data;
  }
  // free(data) for every block.
  template <class Free>
  void empty_into(const Free& free) {
    for (const Block& block : std::exchange(blocks_, {})) free(block.data);
  }

 private:
  struct Block {
    void* data;
    Bytes bytes;
  };
  std::vector<Block> blocks_;
};

}  // namespace zp
