// What people read at the end of a run: text of at most 100 columns. Verdicts first; a refuted stage shows
// INVALID where its rate would stand.
#pragma once

#include <string>

#include "harness/report/bench.hpp"
#include "harness/report/plan.hpp"
#include "harness/report/result.hpp"

namespace zp {

// Header, one row a stage, hash, which case of the hash's validity holds, evidence of every refuted claim,
// and the outcome.
std::string verdict_table(const RunResult& run);

// The same of a run that was timed: rates, memory, bytes and what transfers cost, a row a stage.
std::string bench_table(const BenchResult& bench);

// Model states held and payload sent per rank, stage by stage; for a model's shapes also units, transients
// and bytes.
std::string plan_table(const PlanResult& plan);

}  // namespace zp
