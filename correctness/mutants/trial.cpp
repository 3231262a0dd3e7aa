// One stage, right or wrong on purpose, against the reference.
#include "correctness/mutants/trial.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "harness/base/archive.hpp"
#include "harness/suite/reference_run.hpp"

namespace zp::mutants {
namespace {

Job job_of(const Trial& trial) {
  VerifyOptions options;
  options.model = model_preset(trial.model);
  options.model.tied = options.model.tied || trial.tied;
  options.model.unit_blocks = trial.unit_blocks;
  options.model.frozen = trial.frozen;
  options.keep = trial.keep;
  options.stages = {trial.stage};
  options.steps = trial.steps;
  options.micro_batches = trial.micro_batches;
  options.recipe = trial.recipe;
  options.wire = trial.wire;
  options.timeout_s = trial.timeout_s;
  options.clip = trial.clip;
  options.algorithm = trial.algorithm;
  options.schedule = trial.schedule;
  options.threads = trial.threads;
  options.optimizer = trial.optimizer;
  options.accumulate = trial.accumulate;
  options.lr = trial.lr;
  return resolve(options, trial.world, "threads");
}

// One reference for all mutants of like jobs.
const std::vector<ReferenceStep>& reference_for(const Job& job) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<ReferenceStep>> known;
  const std::lock_guard lock(mutex);
  const Arithmetic arithmetic = job.arithmetic_of(*job.rows.front());
  const std::string key =
      job.model.name + std::string(job.training.recipe.name) + std::string(name_of(job.training.optimizer)) +
      std::to_string(job.training.lr) + std::string(name_of(arithmetic.batching.accumulate)) +
      to_bytes(job.model.frozen) +
      to_bytes(std::vector<int>{static_cast<int>(arithmetic.reduction), arithmetic.batching.world,
                                arithmetic.batching.micro_batches, static_cast<int>(arithmetic.algorithm),
                                static_cast<int>(arithmetic.grads), static_cast<int>(arithmetic.wire),
                                job.steps, static_cast<int>(job.training.clip * 1000), job.model.tied ? 1 : 0,
                                static_cast<int>(job.model.unit_blocks)});
  std::vector<ReferenceStep>& steps = known[key];
  if (steps.empty()) {
    const auto device = make_host_device(Fill::zero);
    kernels::HostOptions options;
    options.max_sequence = job.shape.sequence;
    const auto table = kernels::make_host_table(*device, options);
    const auto reference = make_reference(job.reference_config(arithmetic), *device, *table);
    for (int step = 0; step < job.steps; ++step) steps.push_back(reference->step([] {}));
  }
  return steps;
}

// The job's stage, or what a trial puts in its place.
StageRun misled(const Job& job, const Trial& trial, int rank) {
  StageRun stage = job.stage_run(*job.rows.front());
  if (trial.make != nullptr) stage.row.make = trial.make;
  if (trial.faults) stage.faults = trial.faults(rank);
  stage.fill = trial.fill;
  stage.backend = trial.backend;
  stage.collectives.route = trial.route;
  stage.local_rank = rank;
  std::vector<int> node_of = trial.node_of;
  if (node_of.empty() && job.ranks_per_node > 0) {
    for (int each = 0; each < job.world; ++each) node_of.push_back(each / job.ranks_per_node);
  }
  if (!node_of.empty()) stage.collectives.places = Places::by_node(node_of);
  if (!trial.rank_at.empty()) stage.collectives.places.rank_at = trial.rank_at;
  return stage;
}

std::string text_of(const StageResult& result) {
  std::string text;
  for (const Verdict& verdict : result.verdicts) {
    text += std::to_string(static_cast<int>(verdict.finding));
    for (const std::string& line : verdict.evidence) text += line + "\n";
  }
  return text;
}

}  // namespace

std::set<Claim> Outcome::refuted() const {
  std::set<Claim> claims;
  if (!result) return claims;
  for (const Verdict& verdict : result->verdicts) {
    if (verdict.finding == Finding::refuted) claims.insert(verdict.claim);
  }
  return claims;
}

std::string Outcome::evidence(Claim claim) const {
  std::string text;
  if (!result) return text;
  for (const std::string& line : result->verdicts[static_cast<size_t>(claim)].evidence) text += line + "\n";
  return text;
}

Outcome run(const Trial& trial) {
  const Job job = job_of(trial);
  return run(job, trial, &reference_for(job));
}

Outcome run(const Job& job, const Trial& trial, const std::vector<ReferenceStep>* reference) {
  const Arithmetic arithmetic = job.arithmetic_of(*job.rows.front());
  Outcome outcome;
  std::mutex mutex;
  std::vector<std::string> tables(static_cast<size_t>(job.world));
  try {
    transports().front().run(job.world, trial.timeout_s, [&](Endpoint& endpoint) {
      const int rank = endpoint.link->rank();
      std::vector<ReferenceRun> made;
      if (reference == nullptr) made = run_references(job, *endpoint.control, [](const std::string&) {});
      StageRun stage = misled(job, trial, rank);
      stage.reference = reference != nullptr ? reference : &reference_of(made, arithmetic).steps;
      stage.replay = [&](int step, HashKind kind, int tensor) {
        return replay(job, arithmetic, *endpoint.control, step, kind, tensor);
      };
      const StageResult result = run_stage(stage, endpoint);
      const std::lock_guard lock(mutex);
      tables[static_cast<size_t>(rank)] = text_of(result);
      outcome.result = result;
    });
    if (std::ranges::adjacent_find(tables, std::not_equal_to()) != tables.end()) {
      fail(Exit::internal, "ranks reach different verdicts:\n" + tables.front() + tables.back());
    }
  } catch (const Error& error) {
    outcome.result.reset();
    outcome.error = error;
  }
  return outcome;
}

}  // namespace zp::mutants
