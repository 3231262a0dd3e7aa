// zeroproof verify: agree on the job, run the references, then stage after stage; judge, print, record.
#include "harness/suite/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <variant>

#include "harness/base/archive.hpp"
#include "harness/report/environment.hpp"
#include "harness/report/manifest.hpp"
#include "harness/report/progress.hpp"
#include "harness/report/record.hpp"
#include "harness/report/tables.hpp"
#include "harness/suite/dump.hpp"
#include "harness/suite/job.hpp"
#include "harness/suite/launched.hpp"
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

// What ranks must have in common before they begin; none where they have.
std::optional<Error> disagreement(const Job& job, Control& control) {
  const std::vector<std::string> all = control.all_gather(agreement_of(job));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto [a, b] = std::ranges::mismatch(all[0], all[rank]);
    const auto at = static_cast<size_t>(a - all[0].begin());
    const size_t from = all[0].rfind(',', at) == std::string::npos ? 0 : all[0].rfind(',', at) + 2;
    const auto part = [from](const std::string& text) {
      const std::string rest = text.substr(std::min(from, text.size()));
      return rest.substr(0, std::min(rest.find(','), size_t{80}));
    };
    return Error(Exit::usage,
                 fmt::format("ranks were started with different options: rank 0 has '{}', rank {} has '{}'",
                             part(all[0]), rank, part(all[rank])));
  }
  return std::nullopt;
}

// Kernel threads that every rank's host has: hosts may differ in cores, ranks of a run must not.
int least_threads(int mine, Control& control) {
  int least = mine;
  for (const std::string& text : control.all_gather(std::to_string(mine)))
    least = std::min(least, std::stoi(text));
  return least;
}

// Ranks of one node stand furthest apart. Nodes are as the user says, or as memory is shared.
Places places_on_nodes(const Job& job, Endpoint& endpoint) {
  std::vector<int> node_of;
  for (const std::string& text : endpoint.control->all_gather(std::to_string(endpoint.first_of_node)))
    node_of.push_back(std::stoi(text));
  for (size_t rank = 0; job.ranks_per_node > 0 && rank < node_of.size(); ++rank) {
    node_of[rank] = static_cast<int>(rank) / job.ranks_per_node;
  }
  if (job.algorithm != Algorithm::native) return Places::by_node(node_of);
  // A library knows ranks only.
  Places places = Places::in_rank_order(job.world);
  places.node_of = node_of;
  return places;
}

// Number of this rank among those that share its memory, and how many these are.
struct Local {
  int rank = 0, ranks = 1;
};
Local local_of(Endpoint& endpoint) {
  const std::string mine = std::to_string(endpoint.first_of_node);
  const std::vector<std::string> first = endpoint.control->all_gather(mine);
  return {.rank = static_cast<int>(std::count(first.begin(), first.begin() + endpoint.control->rank(), mine)),
          .ranks = static_cast<int>(std::ranges::count(first, mine))};
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
      : options_(options), job_(job), result_(result), fired_(no_strikes(job.injections.size())) {}

  // The code on every rank, or what all ranks throw.
  std::variant<Exit, Error> run(Endpoint& endpoint) {
    Control& control = *endpoint.control;
    if (const auto problem = disagreement(job_, control)) return *problem;
    if (const auto problem = begin_dump(control)) return *problem;
    threads_ = least_threads(job_.threads, control);
    places_ = places_on_nodes(job_, endpoint);
    local_ = local_of(endpoint);
    const bool first = control.rank() == 0;
    if (first) result_.settings.threads = threads_;
    if (first) result_.settings.nodes = places_.nodes();
    Progress progress(first ? Progress::Display::automatic : Progress::Display::off);
    const std::vector<ReferenceRun> references = run_references(control, progress);
    for (size_t i = 0; i < job_.rows.size(); ++i) {
      StageResult stage = run_row(*job_.rows[i], references, endpoint, [&](int step) {
        progress.show(fmt::format("stage {} ({} of {}): step {} of {}", job_.rows[i]->name(), i + 1,
                                  job_.rows.size(), step + 1, job_.steps));
      });
      if (!first) continue;
      result_.stages.push_back(std::move(stage));
      result_.exit = exit_of(result_.stages);
      record();
    }
    if (const auto problem = keep_golden(references, control)) return *problem;
    if (const auto problem = unfired(control)) return *problem;
    if (const auto problem = changed_golden()) return *problem;
    return static_cast<Exit>(
        std::stoi(control.broadcast(first ? std::to_string(static_cast<int>(result_.exit)) : "")));
  }

 private:
  std::vector<ReferenceRun> run_references(Control& control, Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<ReferenceRun> references =
        zp::run_references(job_, control, [&](const std::string& text) { progress.show(text); });
    if (control.rank() == 0) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      result_.reference_time_s = took.count();
      for (const ReferenceRun& reference : references)
        result_.reference_hash.push_back(reference.steps.back().state);
    }
    return references;
  }

  StageResult run_row(const StageRow& row, const std::vector<ReferenceRun>& references, Endpoint& endpoint,
                      const std::function<void(int)>& progress) {
    const Arithmetic arithmetic = job_.arithmetic_of(row);
    StageRun run = job_.stage_run(row);
    run.kernels.threads = threads_;
    run.local_rank = local_.rank;
    run.local_ranks = local_.ranks;
    run.collectives.places = places_;
    run.reference = &reference_of(references, arithmetic).steps;
    run.progress = progress;
    if (job_.golden.empty()) {
      run.replay = [this, &arithmetic, &endpoint](int step, HashKind kind, int tensor) {
        return replay(job_, arithmetic, *endpoint.control, step, kind, tensor);
      };
    }
    if (!job_.injections.empty()) {
      run.faults =
          make_faults(job_.injections, row.name(), endpoint.link->rank(), job_.training.wire_type(), fired_);
    }
    if (job_.dump.empty()) return run_stage(run, endpoint);
    Dump dump(job_.dump, std::string(row.name()), endpoint.link->rank(),
              Layout(model_units(job_.model), places_));
    run.observer = &dump;
    StageResult result = run_stage(run, endpoint);
    list(dump.collect(*endpoint.control));
    return result;
  }

  // The dump's folder is there and can be written, on every rank.
  std::optional<Error> begin_dump(Control& control) const {
    if (job_.dump.empty()) return std::nullopt;
    std::optional<Error> problem;
    try {
      make_dump_folder(job_.dump);
    } catch (const Error& error) {
      problem = error;
    }
    return shared_problem("verify", problem, control);
  }

  // Rank 0: the manifest also names what one more stage wrote.
  void list(const std::vector<DumpedArray>& written) {
    if (written.empty()) return;
    dumped_.insert(dumped_.end(), written.begin(), written.end());
    std::vector<std::string> stages;
    for (const StageRow* row : job_.rows) stages.emplace_back(row->name());
    write_manifest(job_.dump + "/manifest.json", {.settings = result_.settings,
                                                  .stages = std::move(stages),
                                                  .positions = job_.model.positions,
                                                  .units = model_units(job_.model),
                                                  .arrays = dumped_});
  }

  void record() {
    result_.settings.end_time = utc_now();
    if (!options_.out.empty()) write_records(options_.out, Existing::overwrite, result_);
  }

  // A golden file of a run with a refuted claim would pass its fault on.
  std::optional<Error> keep_golden(const std::vector<ReferenceRun>& references, Control& control) {
    if (options_.write_golden.empty()) return std::nullopt;
    std::optional<Error> problem;
    if (control.rank() == 0 && result_.exit == Exit::pass) {
      try {
        write_golden(options_.write_golden, options_.existing, job_, references);
        result_.golden_written = true;
        record();
      } catch (const Error& error) {
        problem = error;
      }
    }
    return shared_problem("verify", problem, control);
  }

  // No stage may have looked at the hash that was changed.
  std::optional<Error> changed_golden() const {
    if (!options_.golden || options_.golden->hashes == Hashes::as_written) return std::nullopt;
    return Error(Exit::bits, "--golden " + options_.golden->path +
                                 ": a hash in it was changed after it was written: its checksum of the "
                                 "hashes does not hold");
  }

  // The first injection that never struck on any rank.
  std::optional<Error> unfired(Control& control) const {
    if (job_.injections.empty()) return std::nullopt;
    std::vector<int> mine;
    for (const auto& count : fired_) mine.push_back(*count);
    std::vector<int64_t> total(mine.size());
    for (const std::string& text : control.all_gather(to_bytes(mine))) {
      const auto theirs = from_bytes<std::vector<int>>(text);
      for (size_t i = 0; i < total.size(); ++i) total[i] += theirs[i];
    }
    const auto never = std::ranges::find(total, 0);
    if (never == total.end()) return std::nullopt;
    return Error(Exit::usage,
                 "--inject " + job_.injections[static_cast<size_t>(never - total.begin())].text +
                     ": the fault never fired; name a step, stage, rank or unit where it can strike");
  }

  const VerifyOptions& options_;
  const Job& job_;
  RunResult& result_;
  int threads_ = 1;  // of kernels, the same on every rank
  Local local_;
  Places places_;
  FiredCounts fired_;                // of this rank
  std::vector<DumpedArray> dumped_;  // rank 0
};

// What was measured before an error is not lost, and ends with that error's code.
void show_and_record(const VerifyOptions& options, RunResult& result, const std::optional<Error>& error) {
  if (result.stages.empty()) return;
  if (error) {
    result.exit = error->code();
    result.error = error->what();
    if (!options.out.empty()) write_records(options.out, Existing::overwrite, result);
  }
  fmt::print("{}", verdict_table(result));
}

}  // namespace

Exit verify(const VerifyOptions& options) {
  const TransportRow& row = transport_named(options.transport);
  std::optional<Job> job;
  std::optional<Error> problem;
  try {
    job = resolve(options, options.ranks, row.name);
  } catch (const Error& error) {
    problem = error;
  }
  // What only one process finds wrong must end all of them; threads share one resolution.
  if (problem && row.name == "threads") throw *problem;
  RunResult result;
  if (job) result.settings = job->settings;
  std::atomic<bool> first = false;
  std::mutex mutex;
  Exit exit = Exit::internal;
  std::optional<Error> error;
  try {
    row.run(options.ranks, options.timeout_s, [&](Endpoint& endpoint) {
      if (endpoint.control->rank() == 0) first = true;
      std::variant<Exit, Error> outcome = Exit::internal;
      if (const auto found = shared_problem("verify", problem, *endpoint.control)) {
        outcome = *found;
      } else {
        outcome = Verification(options, *job, result).run(endpoint);
      }
      const std::lock_guard lock(mutex);
      if (const auto* failed = std::get_if<Error>(&outcome)) error = *failed;
      if (const auto* code = std::get_if<Exit>(&outcome)) exit = *code;
    });
  } catch (const Error& thrown) {
    error = thrown;
  }
  if (first) show_and_record(options, result, error);
  if (error) throw *error;
  return exit;
}

}  // namespace zp
