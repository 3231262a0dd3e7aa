// A job as text: what ranks must agree on, and where its hash holds.
#include <fmt/format.h>

#include <algorithm>

#include "harness/suite/exact_sums.hpp"
#include "harness/suite/job.hpp"

namespace zp {

namespace {

std::string_view route_asked_for(const Job& job) {
  if (job.carried) return name_of(Route::carried);
  return job.mpi_buffers == MpiBuffers::staged ? name_of(Route::staged) : "auto";
}

}  // namespace

std::string agreement_of(const Job& job) {
  const RunSettings& s = job.settings;
  std::string text = fmt::format(
      "version {}, contract {}, model {} ({} layers, width {}, {} heads, vocabulary {}, {} positions), data "
      "hash {}, "
      "recipe {}, gradients sent as {}, algorithm {}, {} ranks, {} steps, {} micro-batches of {} x {}, "
      "accumulate {}, seed {}, clip {}, optimizer {}, lr {}, momentum {}, "
      "betas {} {}, "
      "epsilon {}, weight decay {}, timeout {}, bucket {} B, prefetch {}, overlap {}, kernel threads asked "
      "for {}, injected '{}', tied {}, {} blocks a unit, frozen '{}', keep {}, {} ranks a node asked for, "
      "dump '{}', device {}, messages of devices {}, {} math '{}', "
      "stages",
      s.version, s.contract, s.model, s.layers, s.width, s.heads, s.vocabulary, job.model.positions,
      s.data_hash, s.recipe, s.wire, s.algorithm, s.ranks, s.steps, s.micro_batches, s.micro_batch_size,
      s.sequence, s.accumulate, s.seed, s.clip, s.optimizer, s.lr, s.momentum, s.beta1, s.beta2, s.epsilon,
      s.weight_decay, s.timeout_s, s.bucket_bytes, s.prefetch, s.overlap, job.threads_asked, s.injected,
      s.tied, s.unit_blocks, fmt::join(s.frozen, " "), s.keep, job.ranks_per_node, job.dump, s.device,
      route_asked_for(job), s.math, s.vendor);
  for (const StageRow* row : job.rows) text += fmt::format(" {}", row->name());
  text += fmt::format(", judged by golden file '{}', golden file written {}", job.golden_digest,
                      !s.write_golden.empty());
  return text;
}

std::string hash_case(const Job& job) {
  const Batching& batching = job.training.batching;
  const bool fp32 = job.training.recipe.grads == Type::f32;
  if (sums_are_exact(job)) {
    return fmt::format(
        "one hash, of any stage and any number of ranks that divides M = {}: sums of this model's "
        "gradients are exact",
        batching.micro_batches);
  }
  if (job.training.fixed_point()) {
    return fmt::format(
        "one hash, of one device alone, of any stage and any number of ranks that divides M = {}: sums in "
        "fixed "
        "point are exact",
        batching.micro_batches);
  }
  const auto all_global = [&](int world) {
    return std::ranges::all_of(job.rows, [&](const StageRow* row) {
      Batching other = batching;
      other.world = world;
      return equals_global_fold(row->promise.reduction, other);
    });
  };
  const bool by_owner = job.algorithm == Algorithm::ring && batching.world > 2;
  if (fp32 && !by_owner && all_global(batching.world)) {
    std::string worlds;
    for (int n = 1; n <= batching.micro_batches; ++n) {
      if (batching.micro_batches % n == 0 && all_global(n))
        worlds += fmt::format("{}{}", worlds.empty() ? "" : ", ", n);
    }
    return fmt::format(
        "one hash, of one device alone: every stage asked for equals the fold over all M = {} "
        "micro-batches, here and at N = {}",
        batching.micro_batches, worlds);
  }
  std::vector<Arithmetic> distinct;
  for (const StageRow* row : job.rows) {
    const Arithmetic arithmetic = job.arithmetic_of(*row);
    if (std::ranges::find(distinct, arithmetic) == distinct.end()) distinct.push_back(arithmetic);
  }
  const std::string layout =
      fmt::format("N = {}, A = {}{}, {}", batching.world, batching.micro_steps(),
                  batching.accumulate == Accumulate::sequential ? " added one after another" : "",
                  name_of(job.algorithm));
  if (distinct.size() == 1) {
    return fmt::format("one hash for these stages; it belongs to this layout: {}", layout);
  }
  return fmt::format(
      "{} references, whose hashes belong to this layout ({}): stages that accumulate "
      "first and stages that reduce every micro-step add in different orders",
      distinct.size(), layout);
}

}  // namespace zp
