// The references of a job: one device alone on rank 0.
#include "harness/suite/reference_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/archive.hpp"
#include "harness/trainer/needs.hpp"

namespace zp {
namespace {

// A device and kernels of its own, unmetered; on the host with all cores.
struct Alone {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<kernels::Table> kernels;
  std::unique_ptr<Reference> reference;

  // A micro-batch of a large model takes longer than other ranks wait, so that kernels say on the way, too,
  // that this one is at work.
  Alone(const Job& job, const Arithmetic& arithmetic, Control& control)
      : engine(job.reference_backend().make_engine(0, Fill::zero, job.timeout_s)) {
    kernels::HostOptions options;
    options.threads = job.reference_threads;
    options.max_sequence = job.shape.sequence;
    kernels = engine->make_kernels(engine->device(),
                                   needs_of(job.model, job.shape, job.training.recipe, job.math, options));
    kernels->set_poll([&control] { control.alive(); });
    reference = make_reference(job.reference_config(arithmetic), engine->device(), *kernels);
  }
};

}  // namespace

std::vector<ReferenceRun> run_references(const Job& job, Control& control,
                                         const std::function<void(const std::string&)>& progress) {
  if (!job.golden.empty()) return job.golden;
  std::vector<ReferenceRun> runs;
  for (const StageRow* row : job.rows) {
    const Arithmetic arithmetic = job.arithmetic_of(*row);
    const auto known = [&](const ReferenceRun& run) { return run.arithmetic == arithmetic; };
    if (std::ranges::any_of(runs, known)) continue;
    runs.push_back({.arithmetic = arithmetic, .steps = {}});
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    std::string text;
    if (control.rank() == 0) {
      Alone alone(job, runs[i].arithmetic, control);
      for (int step = 0; step < job.steps; ++step) {
        int done = 0;
        runs[i].steps.push_back(alone.reference->step([&] {
          control.alive();
          progress(fmt::format("reference {} of {}: step {} of {}, micro-batch {} of {}", i + 1, runs.size(),
                               step + 1, job.steps, ++done, job.training.batching.micro_batches));
        }));
      }
      text = to_bytes(runs[i].steps);
    }
    runs[i].steps = from_bytes<std::vector<ReferenceStep>>(control.broadcast(text));
  }
  return runs;
}

const ReferenceRun& reference_of(const std::vector<ReferenceRun>& runs, const Arithmetic& arithmetic) {
  const auto found =
      std::ranges::find_if(runs, [&](const ReferenceRun& run) { return run.arithmetic == arithmetic; });
  require(found != runs.end(), "every stage has its reference");
  return *found;
}

std::vector<uint32_t> replay(const Job& job, const Arithmetic& arithmetic, Control& control, int step,
                             HashKind kind, int tensor) {
  Alone alone(job, arithmetic, control);
  for (int i = 0; i <= step; ++i) alone.reference->step([] {});
  return alone.reference->bits(kind, tensor);
}

}  // namespace zp
