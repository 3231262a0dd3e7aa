// Checks of every value that a user typed.
#include "harness/suite/typed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "harness/suite/dump.hpp"
#include "harness/suite/inject.hpp"
#include "harness/suite/model_options.hpp"
#include "harness/suite/number_text.hpp"
#include "harness/suite/stages.hpp"
#include "harness/transport/transport.hpp"

namespace zp {

namespace {

constexpr int kMostRanks = 1024;
constexpr int kMostInTurn = 1024;  // the reference walks down such a sum
constexpr int kMostThreads = 1024;
constexpr double kMostPlanned = 1e13;       // parameters
constexpr double kMostPlannedExact = 1e11;  // with the columns of the exact tables
constexpr double kLongestTimeout_s = 86'400;
constexpr int kMostUnits = 1000;
constexpr int kMostRounds = 10'000;

void read_sequence(const Typed& typed, const ModelConfig& model, int64_t& sequence) {
  typed.whole("--seq", sequence, 1, kMostTokens);
  if (model.architecture == Architecture::gpt && sequence > model.positions) {
    fail(Exit::usage, fmt::format("--seq {}: model {} has {} positions; take at most as many", sequence,
                                  model.name, model.positions));
  }
}

std::vector<std::string> stages_of(const std::optional<std::string>& text) {
  std::vector<std::string> names;
  if (!text || *text == "all") {
    for (const StageRow& row : stages()) names.emplace_back(row.name());
    return names;
  }
  std::set<std::string> seen;
  for (const std::string& name : split(*text)) {
    stage_named(name);
    if (!seen.insert(name).second) fail(Exit::usage, "--stages: " + name + " is named twice");
    names.push_back(name);
  }
  return names;
}

std::optional<Algorithm> algorithm_of(const Typed& typed, int ranks) {
  const auto text = typed.value("--algorithm");
  if (!text) return std::nullopt;
  for (const Algorithm algorithm : kAlgorithms) {
    if (name_of(algorithm) != *text) continue;
    if (algorithm == Algorithm::halving && !std::has_single_bit(static_cast<unsigned>(ranks))) {
      fail(
          Exit::unavailable,
          fmt::format("--algorithm halving: needs 1, 2, 4, 8, … ranks, and there are {}; use direct", ranks));
    }
    return algorithm;
  }
  fail(Exit::usage, "--algorithm '" + *text + "': is unknown; there are halving, direct, ring and native");
}

void read_recipe(const Typed& typed, std::string& recipe) {
  recipe = typed.value("--recipe").value_or(recipe);
  recipe_named(recipe);
}

void read_optimizer(const Typed& typed, Method& optimizer) {
  const auto text = typed.value("--optimizer");
  if (!text) return;
  const auto found = std::ranges::find(kMethods, *text, [](Method method) { return name_of(method); });
  if (found == kMethods.end()) {
    fail(Exit::usage, "--optimizer '" + *text + "': is unknown; there are adamw and sgd");
  }
  optimizer = *found;
}

void read_accumulate(const Typed& typed, Accumulate& accumulate) {
  const auto text = typed.value("--accumulate");
  if (!text) return;
  if (*text != "fold" && *text != "sequential") {
    fail(Exit::usage, "--accumulate '" + *text + "': must be fold or sequential");
  }
  accumulate = *text == "fold" ? Accumulate::fold : Accumulate::sequential;
}

// Type as --wire names it: the recipe's gradients as they are, or fixed point.
GradientWire wire_of(const Typed& typed, const std::string& recipe_name) {
  const auto text = typed.value("--wire");
  const Recipe recipe = recipe_named(recipe_name);
  const std::string stored(name_of(recipe.grads));
  if (!text || *text == stored) return GradientWire::as_stored;
  if (*text != "i64") {
    fail(Exit::usage, fmt::format("--wire '{}': recipe {} has gradients of {}; it goes with {}{}", *text,
                                  recipe_name, stored, stored, recipe.grads == Type::f32 ? " or i64" : ""));
  }
  if (recipe.grads != Type::f32) {
    fail(Exit::usage,
         fmt::format("--wire i64: is for fp32 gradients, and recipe {} has {}", recipe_name, stored));
  }
  return GradientWire::i64;
}

void read_out(const Typed& typed, std::string& out, Existing& existing) {
  existing = typed.given("--overwrite") ? Existing::overwrite : Existing::refuse;
  if (const auto path = typed.value("--out")) {
    if (path->empty()) fail(Exit::usage, "--out '': name a file");
    out = *path;
    check_writable(out, existing);
  } else if (existing == Existing::overwrite && !typed.given("--write-golden")) {
    fail(Exit::usage, "--overwrite: is for a file to be written, as by --out, and none is given");
  }
}

// A golden file is of so many steps and micro-batches: they are the run's where it does not say otherwise.
void read_golden(const Typed& typed, VerifyOptions& options) {
  const auto path = typed.value("--golden");
  if (!path) return;
  if (path->empty()) fail(Exit::usage, "--golden '': name a file");
  if (typed.given("--write-golden")) {
    fail(Exit::usage, "--write-golden: needs a reference, and --golden runs none; leave one of them out");
  }
  options.golden = open_golden(*path);
  options.steps = options.golden->steps;
  if (typed.given("--micro-batches")) return;
  options.micro_batches = options.golden->micro_batches;
  if (options.micro_batches % options.ranks != 0) {
    fail(Exit::usage, fmt::format("--golden {}: micro_batches is {} in the file, which is no multiple of the "
                                  "{} ranks of this run",
                                  *path, options.micro_batches, options.ranks));
  }
}

void read_write_golden(const Typed& typed, VerifyOptions& options) {
  const auto path = typed.value("--write-golden");
  if (!path) return;
  if (path->empty()) fail(Exit::usage, "--write-golden '': name a file");
  if (typed.given("--inject")) {
    fail(Exit::usage, "--write-golden: is for runs without a fault; leave --inject out");
  }
  if (*path == options.out)
    fail(Exit::usage, "--write-golden " + *path + ": is --out too; name another file");
  options.write_golden = *path;
  check_writable(*path, options.existing, "--write-golden");
}

// How many ranks, and how they talk. A launcher that started one process only may also hold threads.
void read_ranks(const Typed& typed, const Launch& launch, VerifyOptions& options) {
  typed.whole("--ranks", options.ranks, 1, kMostRanks);
  options.transport = typed.value("--transport").value_or(launch.world > 0 ? "mpi" : "threads");
  const bool carried = transport_named(options.transport).carried;
  if (options.transport == "threads" || (carried && launch.world == 0)) {
    if (launch.world > 1) {
      fail(Exit::usage, fmt::format("--transport threads: a launcher started {} processes that would each "
                                    "believe they are alone; use mpi, or start one process",
                                    launch.world));
    }
    if (options.ranks == 0) options.ranks = launch.world > 0 ? launch.world : kDefaultRanks;
    return;
  }
  const int processes = launch.world > 0 ? launch.world : 1;
  if (options.ranks == 0) options.ranks = processes;
  if (options.ranks != processes) {
    fail(Exit::usage, launch.world > 0
                          ? fmt::format("--ranks {}: the launcher started {} processes; leave --ranks out",
                                        options.ranks, processes)
                          : fmt::format("--transport mpi: {} ranks need a launcher, such as mpirun -n {}",
                                        options.ranks, options.ranks));
  }
}

void read_nodes(const Typed& typed, VerifyOptions& options) {
  typed.whole("--ranks-per-node", options.ranks_per_node, 1, kMostRanks);
  const int each = options.ranks_per_node;
  if (each > 0 && options.ranks % each != 0) {
    fail(Exit::usage, fmt::format("--ranks-per-node {}: does not divide {} ranks; nodes hold equally many",
                                  each, options.ranks));
  }
}

void read_micro_batches(const Typed& typed, VerifyOptions& options) {
  typed.whole("--micro-batches", options.micro_batches, 1, kMostMicroBatches);
  const int ranks = options.ranks;
  if (options.micro_batches % ranks != 0) {
    const int above = (options.micro_batches + ranks - 1) / ranks * ranks;
    fail(Exit::usage, fmt::format("--micro-batches {}: is no multiple of {} ranks; {} would be",
                                  options.micro_batches, ranks, above));
  }
  read_accumulate(typed, options.accumulate);
  if (options.accumulate == Accumulate::sequential && options.micro_batches / ranks > kMostInTurn) {
    fail(Exit::usage,
         fmt::format("--accumulate sequential: adds up to {} micro-steps a rank, and there are {}",
                     kMostInTurn, options.micro_batches / ranks));
  }
  typed.whole("--micro-batch-size", options.micro_batch_size, 1, 1 << 20);
}

void read_data(const Typed& typed, VerifyOptions& options) {
  const auto path = typed.value("--data");
  if (!path) return;
  if (path->empty()) fail(Exit::usage, "--data '': name a file, or leave it out for a synthetic corpus");
  if (options.model.architecture == Architecture::synthetic) {
    fail(Exit::usage, "--data " + *path + ": the synthetic model reads no data; leave it out");
  }
  options.data = *path;
  if (is_token_file(*path)) return;
  if (options.model.vocabulary < 256) {
    fail(Exit::usage, fmt::format("--data {}: bytes need a vocabulary of 256, and model {} has {}", *path,
                                  options.model.name, options.model.vocabulary));
  }
}

void read_training(const Typed& typed, VerifyOptions& options) {
  typed.whole("--steps", options.steps, 1, kMostSteps);
  typed.real("--clip", options.clip, 0, 1e6);
  typed.real("--lr", options.lr, 0, 1000, Least::excluded);
  typed.real("--weight-decay", options.weight_decay, 0, 1000);
  read_optimizer(typed, options.optimizer);
  for (const auto& [name, of] : {std::pair{"--betas", Method::adamw}, std::pair{"--momentum", Method::sgd}}) {
    if (of != options.optimizer && typed.given(name)) {
      fail(Exit::usage,
           fmt::format("{}: is for --optimizer {}, not {}", name, name_of(of), name_of(options.optimizer)));
    }
  }
  constexpr double kMostBeta = 0.999999;
  typed.real("--momentum", options.momentum, 0, kMostBeta);
  if (const auto text = typed.value("--betas")) {
    const std::vector<std::string> betas = split(*text);
    if (betas.size() != 2)
      fail(Exit::usage, "--betas '" + *text + "': must be two numbers, such as 0.9,0.95");
    options.beta1 = static_cast<float>(real_number("--betas", betas[0], 0, kMostBeta));
    options.beta2 = static_cast<float>(real_number("--betas", betas[1], 0, kMostBeta));
  }
  if (const auto text = typed.value("--seed")) options.seed = seed_number("--seed", *text);
}

void read_schedule(const Typed& typed, Schedule& schedule) {
  double bucket_mb = 0.0;
  typed.real("--bucket-mb", bucket_mb, 0, 1e6, Least::excluded);
  schedule.bucket = {std::llround(bucket_mb * 1e6)};
  typed.whole("--prefetch", schedule.prefetch, 0, kMostUnits);
  if (const auto text = typed.value("--overlap")) {
    if (*text != "on" && *text != "off") fail(Exit::usage, "--overlap '" + *text + "': must be on or off");
    schedule.overlap = *text == "on" ? Overlap::on : Overlap::off;
  }
}

void read_device(const Typed& typed, std::string& device) {
  device = typed.value("--device").value_or(device);
  if (device != "cpu" && device != "cuda" && device != "emulated")
    fail(Exit::usage, "--device '" + device + "': is unknown; there are cpu, cuda and emulated");
}

void read_mpi_buffers(const Typed& typed, VerifyOptions& options) {
  const auto text = typed.value("--mpi-buffers");
  if (!text) return;
  if (*text != "auto" && *text != "staged")
    fail(Exit::usage, "--mpi-buffers '" + *text + "': must be auto or staged");
  if (options.device == "cpu" || options.transport != "mpi") {
    fail(Exit::usage, "--mpi-buffers: is for --device cuda and emulated with --transport mpi; leave it out");
  }
  options.mpi_buffers = *text == "staged" ? MpiBuffers::staged : MpiBuffers::automatic;
}

// A vendor's bits are those of one library and device: nobody else's numbers are compared with them.
void read_math(const Typed& typed, VerifyOptions& options) {
  const auto text = typed.value("--math");
  if (!text) return;
  if (*text != "ordered" && *text != "vendor")
    fail(Exit::usage, "--math '" + *text + "': must be ordered or vendor");
  options.math = *text == "vendor" ? Math::vendor : Math::ordered;
  if (options.math == Math::ordered) return;
  if (options.device == "cpu") {
    fail(Exit::unavailable, "--math vendor: is for --device cuda and emulated; the host's kernels are ours");
  }
  for (const std::string name : {"--golden", "--write-golden", "--dump"}) {
    if (typed.given(name))
      fail(Exit::usage, name + ": is for ordered arithmetic, whose bits hold elsewhere; leave --math out");
  }
}

}  // namespace

VerifyOptions verify_options(const Typed& typed, const Launch& launch) {
  VerifyOptions options;
  read_ranks(typed, launch, options);
  options.stages = stages_of(typed.value("--stages"));
  options.model = model_of(typed, "tiny");
  read_data(typed, options);
  read_golden(typed, options);
  read_micro_batches(typed, options);
  read_sequence(typed, options.model, options.sequence);
  read_recipe(typed, options.recipe);
  options.wire = wire_of(typed, options.recipe);
  read_training(typed, options);
  options.algorithm = algorithm_of(typed, options.ranks);
  read_device(typed, options.device);
  read_mpi_buffers(typed, options);
  read_math(typed, options);
  read_schedule(typed, options.schedule);
  typed.whole("--keep", options.keep, 0, kMostUnits);
  read_nodes(typed, options);
  typed.whole("--threads", options.threads, 1, kMostThreads);
  typed.real("--timeout", options.timeout_s, 0, kLongestTimeout_s, Least::excluded);
  options.inject = typed.all("--inject");
  for (const std::string& text : options.inject) parse_injection(text, options.ranks);
  read_out(typed, options.out, options.existing);
  if (options.golden && options.golden->path == options.out)
    fail(Exit::usage, "--out " + options.out + ": is --golden too; name another file");
  read_write_golden(typed, options);
  if (const auto folder = typed.value("--dump")) {
    if (folder->empty()) fail(Exit::usage, "--dump '': name a folder");
    options.dump = *folder;
    check_dump_folder(options.dump);
  }
  return options;
}

BenchOptions bench_options(const Typed& typed, const Launch& launch) {
  BenchOptions options;
  options.job = verify_options(typed, launch);
  options.job.carrier_log = CarrierLog::connections;  // timed steps pay for no line
  // Slow products would hide all else.
  if (options.job.device == "cuda" && !typed.given("--math")) options.job.math = Math::vendor;
  typed.whole("--warm-up", options.warm_up, 0, kMostSteps);
  typed.whole("--rounds", options.rounds, 1, kMostRounds);
  options.job.steps += options.warm_up;
  return options;
}

PlanOptions plan_options(const Typed& typed) {
  PlanOptions options;
  const auto model = typed.value("--model");
  const bool sized = typed.value("--params").has_value();
  if (sized == model.has_value()) {
    fail(Exit::usage, "plan: give either --params, such as 7e9, or --model, such as small");
  }
  typed.real("--params", options.parameters, 1, kMostPlanned);
  if (!typed.value("--ranks")) fail(Exit::usage, "plan: --ranks is missing, such as --ranks 4");
  typed.whole("--ranks", options.ranks, 1, model ? kMostRanks : 1'000'000);
  read_recipe(typed, options.recipe);
  read_optimizer(typed, options.optimizer);
  options.wire = wire_of(typed, options.recipe);
  typed.whole("--micro-steps", options.micro_steps, 1, kMostMicroBatches);
  read_accumulate(typed, options.accumulate);
  options.algorithm = algorithm_of(typed, options.ranks);
  if (options.algorithm == Algorithm::native)
    fail(Exit::usage, "--algorithm native: what a library sends is not known beforehand");
  for (const std::string name : {"--micro-batch-size", "--seq", "--threads", "--algorithm", "--accumulate",
                                 "--keep", "--tied", "--unit-blocks", "--freeze"}) {
    if (sized && typed.given(name))
      fail(Exit::usage, name + ": is for --model; --params alone has no shapes");
  }
  if (model) {
    options.model = model_of(typed, *model);
    typed.whole("--micro-batch-size", options.micro_batch_size, 1, 1 << 20);
    read_sequence(typed, *options.model, options.sequence);
    typed.whole("--threads", options.threads, 1, kMostThreads);
    typed.whole("--keep", options.keep, 0, kMostUnits);
    const auto parameters = static_cast<double>(Layout(model_units(*options.model), 1).parameters().n);
    if (parameters > kMostPlannedExact) {
      fail(Exit::usage,
           fmt::format("--model: has {:.3g} parameters; exact tables go up to {:g}, --params further",
                       parameters, kMostPlannedExact));
    }
  }
  read_out(typed, options.out, options.existing);
  return options;
}

DevicesOptions devices_options(const Typed& typed) {
  DevicesOptions options;
  typed.whole("--ranks", options.ranks, 1, kMostRanks);
  options.device = typed.value("--device").value_or(options.device);
  if (options.device != "cuda" && options.device != "emulated")
    fail(Exit::usage, "--device '" + options.device + "': has no devices; there are cuda and emulated");
  return options;
}

}  // namespace zp
