// One stage, right or wrong on purpose, against the reference.
#include "correctness/mutants/trial.hpp"

#include <gtest/gtest.h>

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
                                static_cast<int>(arithmetic.grads), job.steps,
                                static_cast<int>(job.training.clip * 1000), job.model.tied ? 1 : 0,
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
  const Arithmetic arithmetic = job.arithmetic_of(*job.rows.front());
  Outcome outcome;
  std::mutex mutex;
  std::vector<std::string> tables(static_cast<size_t>(trial.world));
  try {
    transports().front().run(trial.world, trial.timeout_s, [&](Endpoint& endpoint) {
      StageRun stage = job.stage_run(*job.rows.front());
      if (trial.make != nullptr) stage.row.make = trial.make;
      if (trial.faults) stage.faults = trial.faults(endpoint.link->rank());
      stage.fill = trial.fill;
      if (!trial.node_of.empty()) stage.collectives.places = Places::by_node(trial.node_of);
      if (!trial.rank_at.empty()) stage.collectives.places.rank_at = trial.rank_at;
      stage.reference = &reference_for(job);
      stage.replay = [&](int step, HashKind kind, int tensor) {
        return replay(job, arithmetic, *endpoint.control, step, kind, tensor);
      };
      const StageResult result = run_stage(stage, endpoint);
      const std::lock_guard lock(mutex);
      for (const Verdict& verdict : result.verdicts) {
        std::string& table = tables[static_cast<size_t>(endpoint.link->rank())];
        table += std::to_string(static_cast<int>(verdict.finding));
        for (const std::string& line : verdict.evidence) table += line + "\n";
      }
      outcome.result = result;
    });
  } catch (const Error& error) {
    outcome.result.reset();
    outcome.error = error;
    return outcome;
  }
  for (const std::string& table : tables)
    EXPECT_EQ(table, tables.front()) << "every rank reaches the same verdict";
  return outcome;
}

}  // namespace zp::mutants
