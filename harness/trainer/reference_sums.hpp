// The reference's own account of how M micro-batch gradients become one sum (design 3.3, 3.4): an expression
// over micro-batch numbers, with every place where a partial sum is rounded. Shares no code with
// harness/layout/fold.
#pragma once

#include <memory>
#include <vector>

#include "harness/trainer/reference.hpp"

namespace zp {

// A leaf is the stored gradient of one micro-batch; an inner node the fp32 sum of its children.
struct Sum {
  int micro_batch = 0;  // of the lowest leaf below this node
  int height = 0;       // 0: leaf
  bool rounded =
      false;  // inner nodes: stored or sent, hence rounded to the gradient type, before further use
  std::unique_ptr<Sum> low, high;

  bool is_leaf() const { return low == nullptr; }
};

// How many expressions an arithmetic has: one for all elements, or one for each place that owns a slice (a
// ring of three or more).
int owners(const Arithmetic& arithmetic);

// For elements of the slice at place `owner`. What the root stands for is still to be divided by M and
// stored. Throws (internal) for a world that does not divide M and for halving over a world that is no power
// of two.
std::unique_ptr<Sum> sum_over_micro_batches(const Arithmetic& arithmetic, int owner = 0);

// All of them.
std::vector<std::unique_ptr<Sum>> sums_by_owner(const Arithmetic& arithmetic);

// The slice of a unit of this length that the place of each element owns ends here: `place`'s first element.
int64_t first_owned(int64_t unit_length, int world, int place);

// The same additions of the same micro-batches, rounded at the same places: bits are then equal whatever the
// data.
bool same_sums(const Sum& a, const Sum& b);

}  // namespace zp
