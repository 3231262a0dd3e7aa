// One stage from first to last step, judged after every step on every rank.
#include "harness/suite/stage_run.hpp"

#include <algorithm>
#include <bit>
#include <chrono>

#include "harness/base/archive.hpp"
#include "harness/suite/element_check.hpp"
#include "harness/suite/failure.hpp"
#include "harness/theory/activations.hpp"
#include "harness/theory/ledger_table.hpp"
#include "harness/theory/memory.hpp"
#include "harness/theory/traffic.hpp"
#include "harness/theory/work.hpp"
#include "harness/trainer/needs.hpp"

namespace zp {
namespace {

theory::GptShape shape_of(const StageRun& run) {
  return {.layers = run.model.layers,
          .width = run.model.width,
          .heads = run.model.heads,
          .positions = run.model.positions,
          .vocabulary = run.model.vocabulary,
          .batch = run.shape.batch,
          .sequence = run.shape.sequence,
          .tied = run.model.tied,
          .frozen = frozen_parts(run.model)};
}

// Of the host's kernels theory knows it; others' it is told.
Bytes kernel_workspace(const StageRun& run) {
  if (run.backend != &cpu_backend())
    return run.backend->workspace(needs_of(run.model, run.shape, run.training.recipe, run.math, run.kernels));
  return theory::host_kernel_workspace(run.kernels.threads, run.shape.sequence);
}

// Largest total of a rank at the step's peak.
Bytes step_peak(const StepEvidence& evidence) {
  Bytes total;
  const auto found = evidence.held.find(Point::step_peak);
  if (found == evidence.held.end()) return total;
  for (const auto& [category, bytes] : found->second) total += bytes;
  return total;
}

Bytes used_of_device(const StepEvidence& evidence) {
  return evidence.device ? evidence.device->used_most : Bytes{};
}

Bytes all_sent(const StepEvidence& evidence) {
  Bytes total;
  for (const auto& [purpose, peers] : evidence.sent) {
    for (const auto& [peer, sent] : peers) total += sent.bytes;
  }
  return total;
}

// Passes of (N-1)/N·S that a step moved: what was asked for, in wholes of one model.
double passes_of(const StepEvidence& evidence, const Layout& layout, const StageRun& run) {
  if (layout.world() == 1) return 0.0;
  const Training& training = run.training;
  const auto elements = static_cast<double>(layout.slices().n) * (layout.world() - 1);
  const double of_grads = theory::bytes_of_grad_pass(run.row.promise, training);
  const auto of_params = static_cast<double>(size_of(training.recipe.params).n);
  double passes = 0.0;
  for (const auto& [purpose, peers] : evidence.sent) {
    const bool gather = purpose == Purpose::gather_params;
    if (!gather && purpose != Purpose::reduce_grads) continue;
    Bytes bytes;
    for (const auto& [peer, sent] : peers) bytes += sent.bytes;
    passes += static_cast<double>(bytes.n) / (elements * (gather ? of_params : of_grads));
  }
  return passes;
}

void fill_measurements(StageResult& result, const StageRun& run, const Trainer& trainer,
                       const RunFacts& facts, const std::vector<StepEvidence>& ranks) {
  const auto busiest = std::ranges::max_element(ranks, {}, step_peak);
  result.peak = step_peak(*busiest);
  result.held_at_peak = busiest->held.at(Point::step_peak);
  result.predicted_at_peak =
      theory::held_per_step(facts.stage, *facts.layout, run.training, facts.algorithm, facts.constant)
          .at(Point::step_peak);
  result.device = std::ranges::max_element(ranks, {}, used_of_device)->device;
  result.sent_measured = facts.algorithm != Algorithm::native;
  result.sent_per_step = all_sent(*std::ranges::max_element(ranks, {}, all_sent));
  result.crossing = {};
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Places& places = trainer.layout().places();
    result.crossing = std::max(result.crossing, crossing_bytes(ranks[rank], places, static_cast<int>(rank)));
  }
  result.passes = passes_of(ranks.front(), trainer.layout(), run);
  result.sent_by_purpose.clear();
  for (const auto& [purpose, peers] : ranks.front().sent) {
    for (const auto& [peer, sent] : peers) result.sent_by_purpose[purpose] += sent.bytes;
  }
  result.predicted_by_purpose.clear();
  for (const auto& [purpose, peers] :
       theory::sent_per_step(facts.stage, *facts.layout, run.training, facts.algorithm, 0)) {
    for (const auto& [peer, sent] : peers) result.predicted_by_purpose[purpose] += sent.bytes;
  }
  result.hash = {};
  for (const StepEvidence& evidence : ranks) {
    for (const TensorHash& part : evidence.state) result.hash += part.hash;
  }
}

// Judges one step, adds to the verdicts, and says whether no claim is refuted.
bool judge(StageResult& result, const RunFacts& facts, const ReferenceStep& reference,
           const std::vector<StepEvidence>& ranks, Inspection looked) {
  const std::array judged{judge_bits(facts, reference, ranks, looked), judge_bytes(facts, ranks),
                          judge_memory(facts, ranks), judge_work(facts, ranks)};
  bool holds = true;
  for (size_t i = 0; i < judged.size(); ++i) {
    if (result.steps_done == 0) {
      result.verdicts[i] = judged[i];
    } else {
      merge(result.verdicts[i], judged[i]);
    }
    holds = holds && judged[i].finding != Finding::refuted;
  }
  return holds;
}

// Every rank's evidence of the same steps: by step, then by rank.
std::vector<std::vector<StepEvidence>> gathered(const std::vector<StepEvidence>& mine, Control& control) {
  std::vector<std::vector<StepEvidence>> steps(mine.size());
  for (const std::string& text : control.all_gather(to_bytes(mine))) {
    auto theirs = from_bytes<std::vector<StepEvidence>>(text);
    require(theirs.size() == steps.size(), "ranks ran as many steps");
    for (size_t i = 0; i < steps.size(); ++i) steps[i].push_back(std::move(theirs[i]));
  }
  return steps;
}

StepSample sample_of(const std::vector<StepEvidence>& ranks) {
  StepSample sample{.step = ranks.front().step};
  sample.transfers_timed = true;
  for (const StepEvidence& rank : ranks) {
    sample.time_s = std::max(sample.time_s, rank.time_s);
    sample.transfers_timed = sample.transfers_timed && rank.transfers_timed;
    sample.exposed_s += rank.exposed_s / static_cast<double>(ranks.size());
    sample.hidden_s += rank.hidden_s / static_cast<double>(ranks.size());
  }
  return sample;
}

class Steps {
 public:
  Steps(const StageRun& run, Endpoint& endpoint, Trainer& trainer)
      : run_(run), control_(*endpoint.control), trainer_(trainer), facts_(facts_of(run, trainer.layout())) {
    result_.stage = run.row.name();
    result_.tokens_per_step = run.training.batching.micro_batches * run.shape.rows();
    for (size_t i = 0; i < kClaims.size(); ++i) result_.verdicts[i].claim = kClaims[i];
  }

  StageResult run() && {
    const int watched = run_.steps - run_.timing.lead_in - run_.timing.timed;
    bool holds = true;
    for (int step = 0; holds && step < watched; ++step) holds = run_watched(step);
    if (holds && run_.timing.timed > 0) run_timed(watched);
    result_.choices = trainer_.engine().choices();
    return std::move(result_);
  }

 private:
  bool run_watched(int step) {
    if (run_.progress) run_.progress(step);
    control_.barrier();
    const auto began = std::chrono::steady_clock::now();
    const std::vector<StepEvidence> ranks = gathered({trainer_.run_step(step)}, control_).front();
    const bool holds = judge_step(ranks, Inspection::full);
    const std::chrono::duration<double> checked = std::chrono::steady_clock::now() - began;
    result_.checked_step_times_s.push_back(checked.count());
    result_.step_times_s.push_back(std::ranges::max(ranks, {}, &StepEvidence::time_s).time_s);
    finish_step(ranks, holds);
    return holds;
  }

  void run_timed(int first) {
    if (run_.progress) run_.progress(first);
    std::vector<StepEvidence> mine;
    mine.reserve(static_cast<size_t>(run_.steps - first));
    control_.barrier();
    for (int step = first; step < run_.steps; ++step)
      mine.push_back(trainer_.run_step(step, looked_at(step)));
    for (const std::vector<StepEvidence>& ranks : gathered(mine, control_)) {
      const int step = ranks.front().step;
      const bool holds = judge_step(ranks, looked_at(step));
      if (step >= first + run_.timing.lead_in) result_.samples.push_back(sample_of(ranks));
      finish_step(ranks, holds);
      if (!holds) break;
    }
  }

  Inspection looked_at(int step) const {
    return step + 1 == run_.steps ? Inspection::after_step : Inspection::meters_only;
  }

  const ReferenceStep& reference(int step) const { return run_.reference->at(static_cast<size_t>(step)); }

  bool judge_step(const std::vector<StepEvidence>& ranks, Inspection looked) {
    const bool holds = judge(result_, facts_, reference(ranks.front().step), ranks, looked);
    ++result_.steps_done;
    return holds;
  }

  void finish_step(const std::vector<StepEvidence>& ranks, bool holds) {
    const int step = ranks.front().step;
    result_.losses.push_back(std::bit_cast<double>(ranks.front().loss_bits));
    fill_measurements(result_, run_, trainer_, facts_, ranks);
    if (holds) return;
    const Suspect suspect = first_suspect(facts_, reference(step), ranks);
    if (!suspect.found || !run_.replay) return;
    const std::string line =
        compare_elements({.stage = result_.stage, .step = step, .suspect = suspect, .replay = run_.replay},
                         trainer_, control_);
    std::vector<std::string>& lines = result_.verdicts[static_cast<size_t>(Claim::bits)].evidence;
    lines.insert(lines.empty() ? lines.end() : lines.begin() + 1, line);
  }

  const StageRun& run_;
  Control& control_;
  Trainer& trainer_;
  RunFacts facts_;
  StageResult result_;
};

}  // namespace

RunFacts facts_of(const StageRun& run, const Layout& layout) {
  RunFacts facts;
  facts.stage = run.row.promise;
  facts.layout = &layout;
  facts.training = run.training;
  facts.algorithm = run.collectives.algorithm;
  facts.route = run.collectives.route;
  const bool gpt = run.model.architecture == Architecture::gpt;
  const Bytes workspace = kernel_workspace(run);
  facts.constant = gpt ? theory::gpt_constants(shape_of(run), run.training.recipe, workspace)
                       : theory::synthetic_constants(workspace);
  const theory::WorkLines work =
      gpt ? theory::gpt_work(shape_of(run), run.training.recipe) : theory::synthetic_work(layout);
  for (const auto& [kernel, line] : work) {
    facts.work_per_micro_batch[kernel] = {.calls = line.calls, .elements = line.elements};
  }
  return facts;
}

StageResult run_stage(const StageRun& run, Endpoint& endpoint) {
  const std::string context = "stage " + std::string(run.row.name());
  std::unique_ptr<Trainer> trainer;
  try {
    TrainerConfig config;
    config.stage = run.row.name();
    config.make_strategy = run.row.make;
    config.model = run.model;
    config.shape = run.shape;
    config.training = run.training;
    config.corpus = run.corpus;
    config.collectives = run.collectives;
    config.carried_for = run.carried ? endpoint.control.get() : nullptr;
    config.kernels = run.kernels;
    config.backend = run.backend;
    config.math = run.math;
    config.local_rank = run.local_rank;
    config.local_ranks = run.local_ranks;
    config.fill = run.fill;
    config.faults = run.faults;
    config.observer = run.observer;
    config.replica_hash = hash_of_replicas(run.reference->front());
    trainer = std::make_unique<Trainer>(config, *endpoint.link, endpoint.native.get());
    return Steps(run, endpoint, *trainer).run();
  } catch (const Error& error) {
    LastWords words;
    words.rank = endpoint.link->rank();
    words.place = run.collectives.places.place_of(words.rank);
    words.code = error.code();
    words.text = error.what();
    if (trainer) words.log = trainer->ledger().recent_log();
    fail_together(words, *endpoint.control, context);
  }
}

}  // namespace zp
