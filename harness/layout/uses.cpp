// Which unit is used when.
#include "harness/layout/uses.hpp"

namespace zp {

std::vector<Use> uses(const Layout& layout) {
  std::vector<Use> list;
  for (int unit = 0; unit < layout.unit_count(); ++unit) list.push_back({unit, Pass::forward});
  const int first = layout.trained().front();
  for (int unit = layout.unit_count() - 1; unit >= first; --unit) list.push_back({unit, Pass::backward});
  return list;
}

std::vector<int> read_by(const Layout& layout, int unit) {
  const int borrowed = layout.unit(unit).borrows;
  return borrowed < 0 ? std::vector<int>{unit} : std::vector<int>{unit, borrowed};
}

}  // namespace zp
