// What do the claims cost? Every stage trains the model `small` on 4 ranks (threads of this process), one
// step with all checks, the next without hashes, evidence sent round or verdicts, by turns on the same rig.
// The figure is the extra wall time, in parts of a step. The reference is not counted.
#include <benchmark/benchmark.h>

#include <mutex>

#include "bench/side_by_side.hpp"
#include "harness/base/archive.hpp"
#include "harness/suite/job.hpp"
#include "harness/suite/reference_run.hpp"

namespace zp::bench {
namespace {

constexpr int kRanks = 4;

// Two steps a round, and two to warm up.
int steps_of(const Options& options) { return 2 * options.rounds + 2; }

Job job_of(const Options& options, const std::string& model) {
  VerifyOptions asked;
  asked.ranks = kRanks;
  asked.model = model_preset(model);
  asked.steps = steps_of(options);
  asked.micro_batches = kRanks;
  asked.micro_batch_size = 4;
  asked.threads = 1;
  return resolve(asked, kRanks, "threads");
}

struct Times {
  std::vector<double> checked, unchecked;
  bool proved = true;
};

// One step of one rank with everything that proving it takes; true where every claim holds.
bool checked_step(Trainer& trainer, const RunFacts& facts, const ReferenceStep& reference, Control& control,
                  int step) {
  std::vector<StepEvidence> ranks;
  for (const std::string& text : control.all_gather(to_bytes(trainer.run_step(step)))) {
    ranks.push_back(from_bytes<StepEvidence>(text));
  }
  return judge_bits(facts, reference, ranks).holds() && judge_bytes(facts, ranks).holds() &&
         judge_memory(facts, ranks).holds() && judge_work(facts, ranks).holds();
}

Times times_of(const Job& job, const StageRow& row, const std::vector<ReferenceStep>& reference) {
  Times times;
  std::mutex proved;
  transport_named("threads").run(kRanks, job.timeout_s, [&](Endpoint& endpoint) {
    const StageRun run = job.stage_run(row);
    TrainerConfig config;
    config.stage = row.name();
    config.make_strategy = row.make;
    config.model = run.model;
    config.shape = run.shape;
    config.training = run.training;
    config.corpus = run.corpus;
    config.collectives = run.collectives;
    config.kernels = run.kernels;
    config.replica_hash = hash_of_replicas(reference.front());
    Trainer trainer(config, *endpoint.link);
    const RunFacts facts = facts_of(run, trainer.layout());
    for (int step = 0; step < job.steps; ++step) {
      const bool checked = step % 2 == 0;
      endpoint.control->barrier();
      const double begin = wall_seconds();
      if (!checked) {
        trainer.run_step(step, Inspection::meters_only);
      } else if (!checked_step(trainer, facts, reference[static_cast<size_t>(step)], *endpoint.control,
                               step)) {
        const std::lock_guard lock(proved);
        times.proved = false;
      }
      endpoint.control->barrier();
      if (endpoint.control->rank() != 0 || step < 2) continue;
      (checked ? times.checked : times.unchecked).push_back(wall_seconds() - begin);
    }
  });
  return times;
}

void measure(benchmark::State& state, const Job& job, const StageRow& row,
             const std::vector<ReferenceStep>& reference) {
  Times times;
  for (auto _ : state) {
    times = times_of(job, row, reference);
    state.SetIterationTime(median(times.checked));
  }
  if (!times.proved) return state.SkipWithError("INVALID: a claim was refuted");
  std::vector<double> extra;
  for (size_t i = 0; i < times.checked.size(); ++i) {
    extra.push_back(times.checked[i] / times.unchecked[i] - 1.0);
  }
  state.counters["checked step, ms"] = median(times.checked) * 1e3;
  state.counters["unchecked step, ms"] = median(times.unchecked) * 1e3;
  state.counters["cost of checks"] = median(extra);
}

}  // namespace
}  // namespace zp::bench

int main(int argc, char** argv) {
  using namespace zp::bench;
  // The smoke test of this program takes the model `tiny`.
  std::string model = "small";
  std::vector<char*> args;
  for (int i = 0; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--model=")) {
      model = arg.substr(8);
    } else {
      args.push_back(argv[i]);
    }
  }
  auto count = static_cast<int>(args.size());
  args.push_back(nullptr);
  const Options options = parse(&count, args.data());
  const zp::Job job = job_of(options, model);
  std::vector<zp::ReferenceRun> references;
  zp::transport_named("threads").run(1, job.timeout_s, [&](zp::Endpoint& endpoint) {
    references = zp::run_references(job, *endpoint.control, [](const std::string&) {});
  });
  benchmark::AddCustomContext("model", model);
  for (const zp::StageRow* row : job.rows) {
    const auto& reference = zp::reference_of(references, job.arithmetic_of(*row)).steps;
    benchmark::RegisterBenchmark(
        std::string(row->name()).c_str(),
        [&job, row, &reference](benchmark::State& state) { measure(state, job, *row, reference); })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
