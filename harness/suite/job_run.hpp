// A job on all of its ranks: what the commands that train have in common. Ranks agree on the job before they
// begin, each learns where it stands, and all of them end with one code.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/report/progress.hpp"
#include "harness/suite/job.hpp"
#include "harness/suite/reference_run.hpp"

namespace zp {

// Where one rank stands among the others.
struct Standing {
  int threads = 1;  // of kernels, the same on every rank
  // Number of this rank among those that share its memory, and how many these are.
  int local_rank = 0, local_ranks = 1;
  Places places;
  Route route = Route::staged;  // of messages between devices' memories
};

// One rank's way through a job. Rank 0's result is the one that is shown and written.
class JobRun {
 public:
  JobRun(const Job& job, RunResult& result)
      : job_(job), result_(result), fired_(no_strikes(job.injections.size())) {}

  // Collective: agrees on `agreement` (everything that must be equal on all ranks) and finds the standing; or
  // what all ranks are to throw.
  std::optional<Error> begin(const std::string& agreement, Endpoint& endpoint);
  // Collective: the references, and on rank 0 their hashes and time in the result.
  std::vector<ReferenceRun> run_references(Control& control, Progress& progress);
  // A stage of the job as this rank runs it, with the faults that are asked for. `references` and `endpoint`
  // must outlive it.
  StageRun stage_run(const StageRow& row, const std::vector<ReferenceRun>& references, Endpoint& endpoint);
  // Collective: the first injection that never struck on any rank.
  std::optional<Error> unfired(Control& control) const;
  // What is known at the end of a stage: the time, and what a carrier has said.
  void stamp();
  // Collective: rank 0's exit code.
  Exit shared_exit(Control& control) const;

 private:
  const Job& job_;
  RunResult& result_;
  Standing standing_;
  FiredCounts fired_;  // of this rank
};

// Lowest code of the refuted claims.
Exit exit_of(const std::vector<StageResult>& stages);

// A rank's body: the code on every rank, or what all ranks throw.
using JobBody = std::function<std::variant<Exit, Error>(const Job&, Endpoint&)>;

// Resolves the options, starts the ranks and runs `body` on each. At the end, in the process of rank 0,
// `show` is told of the error if there was one; `begin` is called with the job before the ranks start.
// `command` names it to ranks that might have been started with another. Throws what all ranks throw.
Exit run_job(const std::string& command, const VerifyOptions& options,
             const std::function<void(const Job&)>& begin, const JobBody& body,
             const std::function<void(const std::optional<Error>&)>& show);

}  // namespace zp
