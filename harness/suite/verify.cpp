// zeroproof verify: agree on the job, run the references, then stage after stage; judge, print, record.
#include "harness/suite/verify.hpp"

#include <fmt/format.h>

#include <optional>
#include <variant>

#include "harness/report/manifest.hpp"
#include "harness/report/progress.hpp"
#include "harness/report/record.hpp"
#include "harness/report/tables.hpp"
#include "harness/suite/dump.hpp"
#include "harness/suite/job_run.hpp"
#include "harness/suite/launched.hpp"

namespace zp {
namespace {

// One rank's way through the run. Rank 0's is the one that shows and writes.
class Verification {
 public:
  Verification(const VerifyOptions& options, const Job& job, RunResult& result)
      : options_(options), job_(job), result_(result), ranks_(job, result) {}

  // The code on every rank, or what all ranks throw.
  std::variant<Exit, Error> run(Endpoint& endpoint) {
    Control& control = *endpoint.control;
    if (const auto problem = ranks_.begin(agreement_of(job_), endpoint)) return *problem;
    if (const auto problem = begin_dump(control)) return *problem;
    const bool first = control.rank() == 0;
    Progress progress(first ? Progress::Display::automatic : Progress::Display::off);
    const std::vector<ReferenceRun> references = ranks_.run_references(control, progress);
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
    if (const auto problem = ranks_.unfired(control)) return *problem;
    if (const auto problem = changed_golden()) return *problem;
    return ranks_.shared_exit(control);
  }

 private:
  StageResult run_row(const StageRow& row, const std::vector<ReferenceRun>& references, Endpoint& endpoint,
                      const std::function<void(int)>& progress) {
    StageRun run = ranks_.stage_run(row, references, endpoint);
    run.progress = progress;
    if (job_.dump.empty()) return run_stage(run, endpoint);
    Dump dump(job_.dump, std::string(row.name()), endpoint.link->rank(),
              Layout(model_units(job_.model), run.collectives.places));
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
    ranks_.stamp();
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

  const VerifyOptions& options_;
  const Job& job_;
  RunResult& result_;
  JobRun ranks_;
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
  RunResult result;
  return run_job(
      "verify", options, [&](const Job& job) { result.settings = job.settings; },
      [&](const Job& job, Endpoint& endpoint) { return Verification(options, job, result).run(endpoint); },
      [&](const std::optional<Error>& error) { show_and_record(options, result, error); });
}

}  // namespace zp
