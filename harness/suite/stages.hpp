// The one table where a strategy meets its theory. Tests, commands and reports iterate over it.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "harness/strategy/strategy.hpp"
#include "harness/theory/stage.hpp"

namespace zp {

struct StageRow {
  theory::Stage promise;
  std::unique_ptr<Strategy> (*make)(Rig& rig);
  std::string_view name() const { return promise.name; }
};

// In the order of every table.
std::span<const StageRow> stages();
// Throws (usage) naming what there is.
const StageRow& stage_named(std::string_view name);

}  // namespace zp
