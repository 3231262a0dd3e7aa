// zeroproof plan: what every stage would hold and send for a model and a cluster that need not be here.
// Theory alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/base/check.hpp"
#include "harness/base/vocabulary.hpp"
#include "harness/model/model.hpp"
#include "harness/report/plan.hpp"
#include "harness/report/record.hpp"

namespace zp {

struct PlanOptions {
  double parameters = 0;             // Ψ; 0: those of `model`
  std::optional<ModelConfig> model;  // gives exact shapes
  int ranks = 1;
  std::string recipe = "bf16-fp32grad";
  GradientWire wire = GradientWire::as_stored;
  Method optimizer = Method::adamw;
  int micro_steps = 1;  // A
  Accumulate accumulate = Accumulate::fold;
  int keep = 0;                        // with a model, zero3: units kept from forward to backward
  int64_t micro_batch_size = 1;        // with a model: what activations are counted for
  int64_t sequence = 0;                // 0: the model's positions
  std::optional<Algorithm> algorithm;  // none: default_algorithm()
  int threads = 1;                     // kernel threads, for their workspace
  std::string out;
  Existing existing = Existing::refuse;
};

PlanResult make_plan(const PlanOptions& options);
// Prints the tables, writes the record. Returns Exit::pass or throws.
Exit plan(const PlanOptions& options);

}  // namespace zp
