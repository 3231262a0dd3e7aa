// One stage, right or wrong on purpose, against the reference: which claims were refuted, and what they say.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/suite/job.hpp"
#include "harness/suite/stage_run.hpp"
#include "harness/suite/stages.hpp"

namespace zp::mutants {

struct Trial {
  std::string name;
  std::string stage;
  int world = 2;
  int micro_batches = 0;  // 0: default
  int steps = 2;
  std::string recipe = "bf16-fp32grad";
  double timeout_s = 20.0;
  Fill fill = Fill::nan;  // fresh and freed memory is poisoned
  double clip = 1.0;
  std::string model = "tiny";
  bool tied = false;
  int64_t unit_blocks = 1;
  std::vector<std::string> frozen = {};
  int keep = 0;
  std::optional<Algorithm> algorithm = {};
  Schedule schedule = {};
  int threads = 1;
  const Backend* backend = &cpu_backend();
  Route route = Route::staged;  // of messages between its devices
  Method optimizer = Method::adamw;
  Accumulate accumulate = Accumulate::fold;
  float lr = Training{}.lr;
  GradientWire wire = GradientWire::as_stored;
  std::vector<int> rank_at = {};                          // places; empty: in rank order, or by node
  std::vector<int> node_of = {};                          // by rank; empty: all on one
  std::unique_ptr<Strategy> (*make)(Rig& rig) = nullptr;  // null: the stage's own
  std::function<Faults(int rank)> faults = {};            // empty: none
};

struct Outcome {
  std::optional<StageResult> result;
  std::optional<Error> error;
  std::set<Claim> refuted() const;
  // Evidence of one claim, line by line.
  std::string evidence(Claim claim) const;
};

// Ranks as threads. Results that are not the same on every rank are an error.
Outcome run(const Trial& trial);

// Of a trial only what is wrong on purpose counts here, and how memory is filled; all else is as the job
// says, which has one stage. The reference is made first, as the command makes it, where none is given.
Outcome run(const Job& job, const Trial& trial, const std::vector<ReferenceStep>* reference = nullptr);

}  // namespace zp::mutants
