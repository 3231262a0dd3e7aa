// zeroproof bench: agree on the job, run the references, then round after round every stage; judge, print,
// record.
#include "harness/suite/bench.hpp"

#include <fmt/format.h>

#include "harness/measure/rounds.hpp"
#include "harness/report/record.hpp"
#include "harness/report/tables.hpp"
#include "harness/suite/job_run.hpp"

namespace zp {
namespace {

// What another round found, added to what is known of a stage: its numbers are those of the last round, which
// is the refuted one where there is one.
void add_round(StageResult& into, StageResult round, int number) {
  for (StepSample& sample : round.samples) sample.round = number;
  if (into.steps_done > 0) {
    for (size_t i = 0; i < into.verdicts.size(); ++i) merge(into.verdicts[i], round.verdicts[i]);
    round.verdicts = std::move(into.verdicts);
    round.samples.insert(round.samples.begin(), into.samples.begin(), into.samples.end());
  }
  into = std::move(round);
}

// One rank's way through the rounds. Rank 0's is the one that shows and writes.
class Benchmark {
 public:
  Benchmark(const BenchOptions& options, const Job& job, BenchResult& result)
      : options_(options), job_(job), result_(result), ranks_(job, result.run), stages_(job.rows.size()) {}

  // The code on every rank, or what all ranks throw.
  std::variant<Exit, Error> run(Endpoint& endpoint) {
    Control& control = *endpoint.control;
    const std::string agreement =
        fmt::format("{}, {} rounds of {} steps to warm up and {} timed", agreement_of(job_), options_.rounds,
                    options_.warm_up, options_.timed());
    if (const auto problem = ranks_.begin(agreement, endpoint)) return *problem;
    Progress progress(control.rank() == 0 ? Progress::Display::automatic : Progress::Display::off);
    const std::vector<ReferenceRun> references = ranks_.run_references(control, progress);
    for (int round = 0; round < options_.rounds; ++round) {
      for (const size_t at : turns_of(round, stages_.size())) {
        if (!stages_[at].refuted()) run_stage_once(at, round, references, endpoint, progress);
      }
    }
    if (const auto problem = ranks_.unfired(control)) return *problem;
    return ranks_.shared_exit(control);
  }

 private:
  void run_stage_once(size_t at, int round, const std::vector<ReferenceRun>& references, Endpoint& endpoint,
                      Progress& progress) {
    const StageRow& row = *job_.rows[at];
    StageRun run = ranks_.stage_run(row, references, endpoint);
    run.timing = {.lead_in = options_.warm_up > 0 ? 1 : 0, .timed = options_.timed()};
    run.progress = [&](int) {
      progress.show(fmt::format("round {} of {}: stage {}", round + 1, options_.rounds, row.name()));
    };
    add_round(stages_[at], run_stage(run, endpoint), round);
    if (endpoint.control->rank() == 0) record();
  }

  // Of every stage that has run.
  void record() {
    RunResult& run = result_.run;
    run.stages.clear();
    for (const StageResult& stage : stages_) {
      if (stage.steps_done > 0) run.stages.push_back(stage);
    }
    run.exit = exit_of(run.stages);
    ranks_.stamp();
    if (!options_.job.out.empty()) write_records(options_.job.out, Existing::overwrite, result_);
  }

  const BenchOptions& options_;
  const Job& job_;
  BenchResult& result_;
  JobRun ranks_;
  std::vector<StageResult> stages_;
};

// What was measured before an error is not lost, and ends with that error's code.
void show_and_record(const BenchOptions& options, BenchResult& result, const std::optional<Error>& error) {
  if (result.run.stages.empty()) return;
  if (error) {
    result.run.exit = error->code();
    result.run.error = error->what();
    if (!options.job.out.empty()) write_records(options.job.out, Existing::overwrite, result);
  }
  fmt::print("{}", bench_table(result));
}

}  // namespace

Exit bench(const BenchOptions& options) {
  BenchResult result{
      .run = {}, .rounds = options.rounds, .warm_up = options.warm_up, .timed = options.timed()};
  return run_job(
      "bench", options.job, [&](const Job& job) { result.run.settings = job.settings; },
      [&](const Job& job, Endpoint& endpoint) { return Benchmark(options, job, result).run(endpoint); },
      [&](const std::optional<Error>& error) { show_and_record(options, result, error); });
}

}  // namespace zp
