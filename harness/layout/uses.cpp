// Which unit is used when.
#include "harness/layout/uses.hpp"

namespace zp {

std::vector<Use> uses(const Layout& layout) {
  std::vector<Use> list;
  for (int unit = 0; unit < layout.unit_count(); ++unit) list.push_back({unit, Pass::forward});
  for (int unit = layout.unit_count() - 1; unit >= 0; --unit) list.push_back({unit, Pass::backward});
  return list;
}

}  // namespace zp
