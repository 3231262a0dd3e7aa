// The one table where a strategy meets its theory.
#include "harness/suite/stages.hpp"

#include <array>
#include <string>

#include "harness/base/check.hpp"
#include "harness/theory/stages.hpp"

namespace zp {
namespace {

constexpr std::array kStages{
    StageRow{.promise = theory::kDdp, .make = make_ddp},
    StageRow{.promise = theory::kZero1, .make = make_zero1},
    StageRow{.promise = theory::kZero1AllReduce, .make = make_zero1_allreduce},
    StageRow{.promise = theory::kZero2, .make = make_zero2},
    StageRow{.promise = theory::kZero3, .make = make_zero3},
    StageRow{.promise = theory::kZero3Keep, .make = make_zero3_keep},
};

}  // namespace

std::span<const StageRow> stages() { return kStages; }

const StageRow& stage_named(std::string_view name) {
  std::string known;
  for (const StageRow& row : kStages) {
    if (row.name() == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name());
  }
  fail(Exit::usage, "--stages: '" + std::string(name) + "' is no stage; there are " + known + " and all");
}

}  // namespace zp
