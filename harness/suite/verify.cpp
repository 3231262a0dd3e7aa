// zeroproof verify: agree on the job, run the references, then stage after stage; judge, print, record.
#include "harness/suite/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>

#include "harness/report/environment.hpp"
#include "harness/report/progress.hpp"
#include "harness/report/record.hpp"
#include "harness/report/tables.hpp"
#include "harness/suite/job.hpp"
#include "harness/suite/reference_run.hpp"

namespace zp {
namespace {

const TransportRow& transport_named(const std::string& name) {
  std::string known;
  for (const TransportRow& row : transports()) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  fail(Exit::usage, "--transport: '" + name + "' is no transport; there are " + known);
}

struct Ranks {
  const TransportRow* row = nullptr;
  int world = 1;
};

// Which ranks there are: the launcher's processes, or threads of this one.
Ranks ranks_of_run(const VerifyOptions& options) {
  const int launched = launched_world();
  Ranks where;
  where.row =
      &transport_named(options.transport.empty() ? (launched > 0 ? "mpi" : "threads") : options.transport);
  if (where.row->name == "mpi") {
    where.world = std::max(launched, 1);
    if (options.ranks != 0 && options.ranks != where.world) {
      fail(Exit::usage,
           fmt::format("--ranks {}: the launcher started {}; leave --ranks out under mpirun or srun",
                       options.ranks, where.world));
    }
    return where;
  }
  if (launched > 1) {
    fail(Exit::usage,
         fmt::format("--transport {}: {} processes were launched and each would believe it is alone; "
                     "use mpi, or start one process with --ranks",
                     where.row->name, launched));
  }
  where.world = options.ranks == 0 ? kDefaultRanks : options.ranks;
  return where;
}

// Throws the first rank's problem on every rank, and says whose it is unless all have it.
void share_problem(const std::optional<Error>& problem, Control& control) {
  const std::string mine =
      problem ? std::to_string(static_cast<int>(problem->code())) + " " + problem->what() : "";
  const std::vector<std::string> all = control.all_gather(mine);
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  if (first == all.end()) return;
  const std::string text = first->substr(first->find(' ') + 1);
  const bool of_all = std::ranges::count(all, *first) == std::ssize(all);
  fail(static_cast<Exit>(std::stoi(*first)),
       of_all ? text : fmt::format("rank {}: {}", first - all.begin(), text));
}

void agree(const Job& job, Control& control) {
  const std::vector<std::string> all = control.all_gather(agreement_of(job));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto [a, b] = std::ranges::mismatch(all[0], all[rank]);
    const auto at = static_cast<size_t>(a - all[0].begin());
    const size_t from = all[0].rfind(',', at) == std::string::npos ? 0 : all[0].rfind(',', at) + 2;
    const auto part = [from](const std::string& text) {
      return text.substr(std::min(from, text.size()), 60);
    };
    fail(Exit::usage,
         fmt::format("ranks were started with different options: rank 0 has '{}', rank {} has '{}'",
                     part(all[0]), rank, part(all[rank])));
  }
}

// Lowest code of the refuted claims.
Exit exit_of(const std::vector<StageResult>& stages) {
  Exit exit = Exit::pass;
  for (const StageResult& stage : stages) {
    for (const Verdict& verdict : stage.verdicts) {
      if (verdict.finding != Finding::refuted) continue;
      const Exit code = exit_of(verdict.claim);
      if (exit == Exit::pass || code < exit) exit = code;
    }
  }
  return exit;
}

// One rank's way through the run. Rank 0's is the one that shows and writes.
class Verification {
 public:
  Verification(const VerifyOptions& options, const Job& job, RunResult& result)
      : options_(options), job_(job), result_(result) {}

  void run(Endpoint& endpoint) {
    Control& control = *endpoint.control;
    agree(job_, control);
    const bool first = control.rank() == 0;
    Progress progress(first ? Progress::Display::automatic : Progress::Display::off);
    const auto start = std::chrono::steady_clock::now();
    const std::vector<ReferenceRun> references =
        run_references(job_, control, [&](const std::string& text) { progress.show(text); });
    if (first) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      result_.reference_time_s = took.count();
      for (const ReferenceRun& reference : references)
        result_.reference_hash.push_back(reference.final_hash());
    }
    auto fired = std::make_shared<std::atomic<int>>(0);
    for (size_t i = 0; i < job_.rows.size(); ++i) {
      StageResult stage = run_row(*job_.rows[i], references, endpoint, fired, [&](int step) {
        progress.show(fmt::format("stage {} ({} of {}): step {} of {}", job_.rows[i]->name(), i + 1,
                                  job_.rows.size(), step + 1, job_.steps));
      });
      if (first) {
        result_.stages.push_back(std::move(stage));
        result_.exit = exit_of(result_.stages);
        result_.settings.end_time = utc_now();
        if (!options_.out.empty()) write_records(options_.out, Existing::overwrite, result_);
      }
    }
    check_fired(control, *fired);
    // Every rank learns the outcome before rank 0 prints.
    outcome_ = from_code(control.broadcast(first ? std::to_string(static_cast<int>(result_.exit)) : ""));
  }

  Exit outcome() const { return outcome_; }

 private:
  static Exit from_code(const std::string& text) { return static_cast<Exit>(std::stoi(text)); }

  StageResult run_row(const StageRow& row, const std::vector<ReferenceRun>& references, Endpoint& endpoint,
                      const std::shared_ptr<std::atomic<int>>& fired,
                      const std::function<void(int)>& progress) {
    const Arithmetic arithmetic = job_.arithmetic_of(row);
    StageRun run = job_.stage_run(row);
    run.reference = &reference_of(references, arithmetic).steps;
    run.progress = progress;
    run.replay = [this, &arithmetic, &endpoint](int step, HashKind kind, int tensor) {
      return replay(job_, arithmetic, *endpoint.control, step, kind, tensor);
    };
    if (!job_.injections.empty()) {
      run.faults =
          make_faults(job_.injections, row.name(), endpoint.link->rank(), job_.training.recipe, fired);
    }
    return run_stage(run, endpoint);
  }

  void check_fired(Control& control, int fired) const {
    if (job_.injections.empty()) return;
    int64_t total = 0;
    for (const std::string& text : control.all_gather(std::to_string(fired))) total += std::stoll(text);
    if (total == 0) {
      fail(Exit::usage, "--inject " + job_.settings.injected +
                            ": the fault never fired; name a step, stage, rank or unit where it can strike");
    }
  }

  const VerifyOptions& options_;
  const Job& job_;
  RunResult& result_;
  Exit outcome_ = Exit::internal;
};

// What was measured before an error is not lost.
void show(const RunResult& result) {
  if (result.stages.empty()) return;
  fmt::print("{}", verdict_table(result));
  std::fflush(stdout);
}

}  // namespace

void fail_on_every_rank(const Error& problem) {
  constexpr double kPatience = 10.0;  // seconds; the others may have failed in the same way before they wait
  const int world = launched_world();
  if (world > 1) {
    transport_named("mpi").run(world, kPatience,
                               [&](Endpoint& endpoint) { share_problem(problem, *endpoint.control); });
  }
  throw problem;
}

Exit verify(const VerifyOptions& options) {
  const Ranks where = ranks_of_run(options);
  std::optional<Job> job;
  std::optional<Error> problem;
  try {
    job = resolve(options, where.world, where.row->name);
  } catch (const Error& error) {
    problem = error;
  }
  // What only one process finds wrong must end all of them; threads share one resolution.
  if (problem && where.row->name == "threads") throw *problem;
  RunResult result;
  if (job) result.settings = job->settings;
  std::atomic<int> outcome = static_cast<int>(Exit::internal);
  std::atomic<bool> first = false;
  try {
    where.row->run(where.world, options.timeout_s, [&](Endpoint& endpoint) {
      if (endpoint.control->rank() == 0) first = true;
      share_problem(problem, *endpoint.control);
      Verification verification(options, *job, result);
      verification.run(endpoint);
      outcome = static_cast<int>(verification.outcome());
    });
  } catch (const Error&) {
    if (first) show(result);
    throw;
  }
  if (first) show(result);
  return static_cast<Exit>(outcome.load());
}

}  // namespace zp
