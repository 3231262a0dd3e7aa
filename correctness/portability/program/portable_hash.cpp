// Prints one hash per kernel and shape, and the hashes of a few training steps with two ranks as threads: the
// same text whatever built it, whatever ISA runs it, and on any number of kernel threads. Needs no MPI.
// Where arithmetic is slow, --recipes N trains in fewer of them.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/layout/fold.hpp"
#include "harness/model/data.hpp"
#include "harness/strategy/strategy.hpp"
#include "harness/trainer/trainer.hpp"
#include "harness/transport/rows.hpp"
#include "kernels/cases.hpp"

// The table of transports has a row for MPI, which this program leaves out.
void zp::transport::run_mpi(int, double, const std::function<void(Endpoint&)>&) {
  fail(Exit::unavailable, "this program is built without MPI");
}

namespace zp {
namespace {

constexpr int kWorld = 2, kMicroBatches = 4, kSteps = 2;
constexpr int64_t kCorpusLength = 1 << 20;  // as zeroproof's own
constexpr double kTimeout = 60.0;

#ifdef ZP_PANEL_ROWS
static_assert(kernels::kPanelRows == ZP_PANEL_ROWS && kernels::kPanelColumns == ZP_PANEL_COLUMNS,
              "this variant's header is found before the product's");
#endif

struct NamedIsa {
  std::string_view name;
  kernels::Isa isa;
};
constexpr NamedIsa kIsas[] = {{"best", kernels::Isa::best},
                              {"portable", kernels::Isa::portable},
                              {"avx2", kernels::Isa::avx2},
                              {"avx512", kernels::Isa::avx512}};

struct NamedSizes {
  std::string_view name;
  kernels::CaseSizes sizes;
};
// Long: chains over tokens are cut at 512, and causal ranges span several blocks of 64.
constexpr NamedSizes kSizes[] = {
    {"odd", kernels::kOddSizes},
    {"long", {.batch = 1, .sequence = 523, .width = 26, .heads = 2, .vocabulary = 71, .parameters = 1031}}};

struct Stage {
  const char* name;
  std::unique_ptr<Strategy> (*make)(Rig&);
};
constexpr Stage kStages[] = {{"zero2", make_zero2}, {"zero3", make_zero3}};

kernels::Isa isa_named(std::string_view name) {
  for (const NamedIsa& row : kIsas) {
    if (row.name == name) return row.isa;
  }
  fail(Exit::usage, "--isa: '" + std::string(name) + "' is no ISA");
}

struct Options {
  kernels::HostOptions kernels;
  size_t recipes = std::size(kRecipes);
};

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--isa") {
      options.kernels.isa = isa_named(value);
    } else if (option == "--threads") {
      options.kernels.threads = std::atoi(value);
    } else if (option == "--recipes") {
      options.recipes = std::min(static_cast<size_t>(std::atoi(value)), std::size(kRecipes));
    } else {
      fail(Exit::usage,
           std::string(option) + " is no option; there are --isa NAME, --threads N and --recipes N");
    }
  }
  return options;
}

// Every bit that the kernel could have written, on memory that holds NaN where nothing was.
void print_kernels(kernels::HostOptions options) {
  for (const NamedSizes& shape : kSizes) {
    options.max_sequence = shape.sizes.sequence;
    for (const kernels::KernelCase& row : kernels::kernel_cases()) {
      const auto device = make_host_device(Fill::nan);
      kernels::CaseMemory memory(*device);
      const auto table = kernels::make_host_table(*device, options);
      table->run(row.make(memory, shape.sizes));
      std::printf("%s, %s: %s\n", std::string(row.name).c_str(), std::string(shape.name).c_str(),
                  to_string(memory.digest()).c_str());
    }
  }
}

// What zeroproof verify trains with the options that run.sh gives it.
TrainerConfig config_of(const Stage& stage, const Recipe& recipe, const kernels::HostOptions& options) {
  TrainerConfig config;
  config.stage = stage.name;
  config.make_strategy = stage.make;
  config.model = model_preset("tiny");
  config.shape.sequence = config.model.positions;
  config.training.recipe = recipe;
  config.training.batching = {.world = kWorld, .micro_batches = kMicroBatches};
  config.collectives.algorithm = default_algorithm(kWorld, recipe.grads);
  config.collectives.places = Places::in_rank_order(kWorld);
  config.collectives.timeout_s = kTimeout;
  config.kernels = options;
  config.kernels.max_sequence = config.shape.sequence;
  config.fill = Fill::nan;
  return config;
}

void print_training(const Stage& stage, const Recipe& recipe, const kernels::HostOptions& options) {
  TrainerConfig config = config_of(stage, recipe, options);
  const Corpus corpus = Corpus::synthetic(config.training.seed, kCorpusLength, config.model.vocabulary);
  config.corpus = &corpus;
  struct Step {
    HashSum hash;
    uint64_t loss_bits = 0, norm_bits = 0;
  };
  std::vector<Step> steps(kSteps);
  std::mutex mutex;
  transport::run_threads(kWorld, kTimeout, [&](Endpoint& endpoint) {
    Trainer trainer(config, *endpoint.link);
    for (int number = 0; number < kSteps; ++number) {
      const StepEvidence mine = trainer.run_step(number);
      const std::lock_guard lock(mutex);
      Step& step = steps[static_cast<size_t>(number)];
      for (const TensorHash& part : mine.state) step.hash += part.hash;
      step.loss_bits = mine.loss_bits;
      step.norm_bits = mine.norm_bits;
    }
    endpoint.control->barrier();
  });
  for (const Step& step : steps) {
    std::printf("%s, %s: state %s loss %016llx norm %016llx\n", stage.name, std::string(recipe.name).c_str(),
                to_string(step.hash).c_str(), static_cast<unsigned long long>(step.loss_bits),
                static_cast<unsigned long long>(step.norm_bits));
    require(step.hash.finite, "a state holds numbers");
  }
}

Exit run(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  print_kernels(options.kernels);
  for (size_t i = 0; i < options.recipes; ++i) {
    for (const Stage& stage : kStages) print_training(stage, kRecipes.at(i), options.kernels);
  }
  return Exit::pass;
}

}  // namespace
}  // namespace zp

int main(int argc, char** argv) {
  try {
    return static_cast<int>(zp::run(argc, argv));
  } catch (const zp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(zp::Exit::internal);
  }
}
