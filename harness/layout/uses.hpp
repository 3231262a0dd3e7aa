// Which unit is used when. zero3 gathers a unit before every use; theory counts from the same list.
#pragma once

#include <vector>

#include "harness/layout/layout.hpp"

namespace zp {

enum class Pass { forward, backward };

struct Use {
  int unit = 0;
  Pass pass = Pass::forward;
  friend bool operator==(const Use&, const Use&) = default;
};

// Uses of one micro-batch: every unit forward in order, then backward in the reverse order. (No unit borrows
// another's tensors: tied models are not supported yet.)
std::vector<Use> uses(const Layout& layout);

}  // namespace zp
