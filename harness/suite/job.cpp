// What a verify run amounts to once the number of ranks is known.
#include "harness/suite/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "harness/report/environment.hpp"
#include "harness/suite/exact_sums.hpp"
#include "harness/suite/model_options.hpp"
#include "harness/theory/memory.hpp"

namespace zp {
namespace {

constexpr int64_t kSyntheticCorpusLength = 1 << 20;

Batching batching_of(const VerifyOptions& options, int world) {
  Batching batching;
  batching.world = world;
  batching.accumulate = options.accumulate;
  batching.micro_batches = options.micro_batches == 0 ? default_micro_batches(world) : options.micro_batches;
  if (batching.micro_batches % world != 0) {
    fail(Exit::usage,
         fmt::format("--micro-batches: {} is no multiple of the {} ranks; {} would be right",
                     batching.micro_batches, world, (batching.micro_batches + world - 1) / world * world));
  }
  return batching;
}

Training training_of(const VerifyOptions& options, int world) {
  Training training;
  training.recipe = recipe_named(options.recipe);
  training.wire = options.wire;
  training.batching = batching_of(options, world);
  training.seed = options.seed;
  training.clip = options.clip;
  training.optimizer = options.optimizer;
  training.momentum = options.momentum;
  training.lr = options.lr;
  training.beta1 = options.beta1;
  training.beta2 = options.beta2;
  training.weight_decay = options.weight_decay;
  training.schedule = options.schedule;
  training.keep = options.keep;
  return training;
}

BatchShape shape_of(const VerifyOptions& options) {
  BatchShape shape;
  if (options.model.architecture == Architecture::synthetic) {
    if (options.sequence != 0 || options.micro_batch_size != 1 || !options.data.empty()) {
      fail(Exit::usage, "--model synthetic reads no tokens: leave --seq, --micro-batch-size and --data out");
    }
    return shape;
  }
  shape.batch = options.micro_batch_size;
  shape.sequence = options.sequence == 0 ? options.model.positions : options.sequence;
  if (shape.sequence > options.model.positions) {
    fail(Exit::usage, fmt::format("--seq: {} tokens are more than the model's {} positions", shape.sequence,
                                  options.model.positions));
  }
  return shape;
}

void describe(Job& job, const VerifyOptions& options, std::string_view transport) {
  RunSettings& s = job.settings;
  describe_host(s);
  s.model = job.model.name;
  s.data = job.corpus ? job.corpus->name() : "none";
  s.data_hash = job.corpus ? fmt::format("{:016x}", job.corpus->hash()) : "";
  s.recipe = job.training.recipe.name;
  s.wire = job.training.fixed_point() ? "i64" : name_of(job.training.recipe.grads);
  s.transport = transport;
  if (transport == "mpi" || (job.carried && launched_world() > 0)) s.mpi = mpi_version();
  if (job.carried) s.nccl = job.backend->carrier_version();
  s.algorithm = name_of(job.algorithm);
  const Layout layout(model_units(job.model), job.world);
  s.parameters = layout.parameters().n;
  s.layers = job.model.layers;
  s.width = job.model.width;
  s.heads = job.model.heads;
  s.vocabulary = job.model.vocabulary;
  s.tied = job.model.tied;
  s.unit_blocks = job.model.unit_blocks;
  s.frozen = job.model.frozen;
  s.keep = job.training.keep;
  s.ranks = job.world;
  s.threads = job.threads;
  s.device = job.backend->name();
  s.device_description = job.backend->description();
  s.math = name_of(job.math);
  if (job.math == Math::vendor) s.vendor = job.backend->vendor();
  s.grade = job.math == Math::vendor                            ? "vendor: " + s.vendor
            : sums_are_exact(job) || job.training.fixed_point() ? "exact"
                                                                : "ordered";
  s.steps = job.steps;
  s.micro_batches = job.training.batching.micro_batches;
  s.micro_batch_size = job.shape.batch;
  s.sequence = job.shape.sequence;
  s.seed = job.training.seed;
  s.clip = job.training.clip;
  s.optimizer = name_of(job.training.optimizer);
  s.accumulate = name_of(job.training.batching.accumulate);
  s.momentum = static_cast<double>(job.training.momentum);
  s.lr = static_cast<double>(job.training.lr);
  s.beta1 = static_cast<double>(job.training.beta1);
  s.beta2 = static_cast<double>(job.training.beta2);
  s.epsilon = static_cast<double>(job.training.epsilon);
  s.weight_decay = static_cast<double>(job.training.weight_decay);
  s.timeout_s = job.timeout_s;
  s.bucket_bytes = job.training.schedule.bucket.n;
  s.prefetch = job.training.schedule.prefetch;
  s.overlap = job.training.schedule.overlap == Overlap::on;
  for (const std::string& text : options.inject) s.injected += (s.injected.empty() ? "" : " ") + text;
  s.args = options.args;
  s.golden = options.golden ? options.golden->path : "";
  s.write_golden = options.write_golden;
  s.hash_case = hash_case(job);
}

// What the reference holds on rank 0's host while it runs alone: parameters, masters and moments, the
// gradients that its sums keep at once (about log2 M + 1 whole ones, and the one being computed; in fixed
// point one of int64, the last and the one being computed; in a ring all of them), and the model's own
// memory.
Bytes reference_need(const Job& job, const Layout& layout, const RunFacts& facts) {
  const auto depth = std::bit_width(static_cast<unsigned>(job.training.batching.micro_batches));
  const Recipe& recipe = job.training.recipe;
  const bool by_owner = job.algorithm == Algorithm::ring && job.world > 2 && !job.training.fixed_point();
  const Bytes sums = job.training.fixed_point() ? Bytes{8 + 2 * 4}
                     : by_owner                 ? Bytes{4} * (job.training.batching.micro_batches + 1)
                                                : Bytes{4} * (depth + 1);
  const Bytes state =
      size_of(recipe.params) + Bytes{4} * optimizer_words(recipe, job.training.optimizer) + sums;
  return layout.parameters() * state + theory::total(facts.constant);
}

// The stages' peaks on every local rank, and before them the reference, must fit what is free here. Where
// stages hold a device's memory, it refuses by itself what it does not have.
void check_memory(const Job& job) {
  const Layout layout(model_units(job.model), job.world);
  const Bytes free = available_memory();
  const int here = local_ranks(job.world);
  if (free.n <= 0) return;
  const auto refuse = [&](std::string_view who, Bytes need) {
    fail(Exit::unavailable,
         fmt::format(
             "memory: {} {} bytes on this host, and {} are free; fewer ranks, a smaller model or a smaller "
             "micro-batch fits",
             who, need.n, free.n));
  };
  for (const StageRow* row : job.rows) {
    const RunFacts facts = facts_of(job.stage_run(*row), layout);
    const Bytes peak =
        theory::total(theory::held_per_step(facts.stage, layout, job.training, job.algorithm, facts.constant)
                          .at(Point::step_peak));
    if (job.backend == &cpu_backend() && peak * here > free) {
      refuse(fmt::format("the ledger of stage {} says {} bytes a rank; its {} ranks need", row->name(),
                         peak.n, here),
             peak * here);
    }
    if (!job.golden.empty() || job.math == Math::vendor) continue;
    if (const Bytes need = reference_need(job, layout, facts); need > free)
      refuse("the reference needs about", need);
  }
}

// Micro-batches must differ, or ranks that took each other's would not be noticed.
void check_distinct(const Job& job) {
  if (!job.corpus) return;
  constexpr int kStepsLookedAt = 3;
  for (int step = 0; step < std::min(job.steps, kStepsLookedAt); ++step) {
    std::map<std::vector<int32_t>, int> seen;
    for (int number = 0; number < job.training.batching.micro_batches; ++number) {
      MicroBatch tokens =
          job.corpus->micro_batch(job.training.seed, step, number, job.shape.batch, job.shape.sequence);
      const auto [at, fresh] = seen.try_emplace(std::move(tokens.inputs), number);
      if (fresh) continue;
      fail(Exit::usage,
           fmt::format("data {}: micro-batches {} and {} of step {} hold the same tokens, so that a rank "
                       "that takes the wrong one would go unnoticed; a longer text or another --seed is "
                       "needed",
                       job.corpus->name(), at->second, number, step));
    }
  }
}

// NCCL carries messages between GPUs only, where it is here.
void begin_carrier(const Job& job, CarrierLog log) {
  job.backend->ask_carrier(log);
  try {
    static_cast<void>(job.backend->carrier_version());
  } catch (const Error& error) {
    throw Error(error.code(), std::string("--transport nccl: ") + error.what());
  }
}

void check_injections(const Job& job) {
  InjectionBounds bounds;
  bounds.steps = job.steps;
  bounds.units = static_cast<int>(model_units(job.model).size());
  bounds.micro_batches = job.training.batching.micro_batches;
  bounds.grads = job.training.recipe.grads;
  bounds.wire = job.training.wire_type();
  for (const StageRow* row : job.rows) bounds.stages.push_back(row->name());
  for (const Injection& injection : job.injections) check_injection(injection, bounds);
}

}  // namespace

Arithmetic Job::arithmetic_of(const StageRow& row) const {
  // Where no order matters, one device's stands for all.
  if (sums_are_exact(*this)) {
    return canonical({.reduction = Reduction::after_accumulation,
                      .batching = {.world = 1, .micro_batches = training.batching.micro_batches},
                      .algorithm = Algorithm::direct,
                      .grads = training.recipe.grads});
  }
  return canonical({.reduction = row.promise.reduction,
                    .batching = training.batching,
                    // Its sums are those of any order.
                    .algorithm = algorithm == Algorithm::native ? Algorithm::direct : algorithm,
                    .grads = training.recipe.grads,
                    .wire = training.wire});
}

StageRun Job::stage_run(const StageRow& row) const {
  StageRun run;
  run.row = row;
  run.model = model;
  run.shape = shape;
  run.training = training;
  run.corpus = tokens();
  run.collectives.algorithm = algorithm;
  run.carried = carried;
  run.collectives.places = Places::in_rank_order(world);
  run.collectives.timeout_s = timeout_s;
  run.kernels.threads = threads;
  run.kernels.max_sequence = shape.sequence;
  run.backend = backend;
  run.math = math;
  run.steps = steps;
  return run;
}

ReferenceConfig Job::reference_config(const Arithmetic& arithmetic) const {
  ReferenceConfig config;
  config.model = model;
  config.shape = shape;
  config.recipe = training.recipe;
  config.arithmetic = arithmetic;
  config.seed = training.seed;
  config.clip = training.clip;
  config.optimizer = training.optimizer;
  config.momentum = training.momentum;
  config.lr = training.lr;
  config.beta1 = training.beta1;
  config.beta2 = training.beta2;
  config.epsilon = training.epsilon;
  config.weight_decay = training.weight_decay;
  config.corpus = tokens();
  return config;
}

Job resolve(const VerifyOptions& options, int world, std::string_view transport) {
  Job job;
  job.world = world;
  job.training = training_of(options, world);
  job.algorithm = options.algorithm.value_or(default_algorithm(world, job.training.wire_type()));
  job.backend = &backend_named(options.device);
  job.carried = transport_named(transport).carried;
  if (job.carried) begin_carrier(job, options.carrier_log);
  job.mpi_buffers = options.mpi_buffers;
  job.math = options.math;
  check_model(options.model);
  job.model = options.model;
  check_algorithm(job, transport);
  job.ranks_per_node = options.ranks_per_node;
  job.shape = shape_of(options);
  if (job.model.architecture == Architecture::gpt) {
    job.corpus = options.data.empty()
                     ? Corpus::synthetic(options.seed, kSyntheticCorpusLength, job.model.vocabulary)
                 : is_token_file(options.data)
                     ? Corpus::from_token_file(options.data, job.shape.rows(), job.model.vocabulary)
                     : Corpus::from_file(options.data, job.shape.rows());
  }
  if (options.stages.empty()) {
    for (const StageRow& row : stages()) job.rows.push_back(&row);
  } else {
    for (const std::string& name : options.stages) job.rows.push_back(&stage_named(name));
  }
  job.threads = options.threads == 0 ? default_threads(local_ranks(world)) : options.threads;
  job.reference_threads = std::max(job.threads, usable_cores());
  job.steps = options.steps;
  job.timeout_s = options.timeout_s;
  for (const std::string& text : options.inject) job.injections.push_back(parse_injection(text, world));
  job.dump = options.dump;
  check_injections(job);
  check_distinct(job);
  describe(job, options, transport);
  job.threads_asked = options.threads;
  if (options.golden) {
    job.golden = golden_references(*options.golden, job);
    job.golden_digest = options.golden->digest;
  }
  check_memory(job);
  return job;
}

}  // namespace zp
