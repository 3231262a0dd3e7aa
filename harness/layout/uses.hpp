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

// Uses of one micro-batch: every unit forward in order, then backward in the reverse order, down to the first
// unit that is trained: those below it have no gradient to pass on.
std::vector<Use> uses(const Layout& layout);

// Units whose parameters a use of `unit` reads: its own, then the one that it borrows.
std::vector<int> read_by(const Layout& layout, int unit);

}  // namespace zp
