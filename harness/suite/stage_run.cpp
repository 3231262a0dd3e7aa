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
    return run.backend->workspace(
        {.host = run.kernels, .attention_rows = run.shape.rows() * run.model.heads});
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
           const std::vector<StepEvidence>& ranks) {
  const std::array judged{judge_bits(facts, reference, ranks), judge_bytes(facts, ranks),
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

StageResult run_steps(const StageRun& run, Endpoint& endpoint, Trainer& trainer) {
  StageResult result;
  result.stage = run.row.name();
  result.tokens_per_step = run.training.batching.micro_batches * run.shape.rows();
  const RunFacts facts = facts_of(run, trainer.layout());
  for (size_t i = 0; i < kClaims.size(); ++i) result.verdicts[i].claim = kClaims[i];
  for (int step = 0; step < run.steps; ++step) {
    if (run.progress) run.progress(step);
    endpoint.control->barrier();
    const auto began = std::chrono::steady_clock::now();
    const StepEvidence mine = trainer.run_step(step);
    std::vector<StepEvidence> ranks;
    for (const std::string& text : endpoint.control->all_gather(to_bytes(mine))) {
      ranks.push_back(from_bytes<StepEvidence>(text));
    }
    const ReferenceStep& reference = run.reference->at(static_cast<size_t>(step));
    const bool holds = judge(result, facts, reference, ranks);
    ++result.steps_done;
    const std::chrono::duration<double> checked = std::chrono::steady_clock::now() - began;
    result.checked_step_times_s.push_back(checked.count());
    result.step_times_s.push_back(std::ranges::max(ranks, {}, &StepEvidence::time_s).time_s);
    result.losses.push_back(std::bit_cast<double>(ranks.front().loss_bits));
    fill_measurements(result, run, trainer, facts, ranks);
    if (holds) continue;
    const Suspect suspect = first_suspect(facts, reference, ranks);
    if (suspect.found && run.replay) {
      const std::string line =
          compare_elements({.stage = result.stage, .step = step, .suspect = suspect, .replay = run.replay},
                           trainer, *endpoint.control);
      std::vector<std::string>& lines = result.verdicts[static_cast<size_t>(Claim::bits)].evidence;
      lines.insert(lines.empty() ? lines.end() : lines.begin() + 1, line);
    }
    break;
  }
  return result;
}

}  // namespace

RunFacts facts_of(const StageRun& run, const Layout& layout) {
  RunFacts facts;
  facts.stage = run.row.promise;
  facts.layout = &layout;
  facts.training = run.training;
  facts.algorithm = run.collectives.algorithm;
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
    config.kernels = run.kernels;
    config.backend = run.backend;
    config.local_rank = run.local_rank;
    config.local_ranks = run.local_ranks;
    config.fill = run.fill;
    config.faults = run.faults;
    config.observer = run.observer;
    trainer = std::make_unique<Trainer>(config, *endpoint.link, endpoint.native.get());
    return run_steps(run, endpoint, *trainer);
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
