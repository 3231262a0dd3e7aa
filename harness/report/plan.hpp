// What `zeroproof plan` found, as plain data: the ledger and the traffic of every stage, from theory alone.
// Nothing was run, so there are no verdicts.
#pragma once

#include <string>
#include <vector>

#include "harness/base/vocabulary.hpp"
#include "harness/theory/ledger_table.hpp"

namespace zp {

struct PlanUnit {
  std::string name;
  Elements parameters, slice, padded;
};

// What only a model's shapes give: padding, transients, bytes by purpose.
struct PlanExact {
  std::string model;
  int64_t micro_batch_size = 0, sequence = 0;
  int micro_batches = 0, threads = 0;
  Algorithm algorithm = Algorithm::direct;
  Accumulate accumulate = Accumulate::fold;
  Elements parameters, padded;
  std::vector<PlanUnit> units;
  std::vector<theory::ExactRow> rows;
};

struct PlanResult {
  theory::PlanNumbers numbers;
  std::vector<theory::IdealRow> rows;
  double loss_bytes = 0, norm_bytes = 0;  // sent beside, per rank and step
  bool has_exact = false;
  PlanExact exact;
};

}  // namespace zp
