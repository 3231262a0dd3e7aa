// How near does a whole step come to the peak of fused multiply-adds? Forward and backward of a model on the
// kernels alone (no ranks, no optimizer), one micro-batch on one thread; counted are the products of gemm and
// the terms of attention that causality leaves. --model=NAME --batch=N --sequence=N beside the usual options.
#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernel_rows.hpp"
#include "bench/side_by_side.hpp"
#include "harness/base/random.hpp"
#include "harness/layout/uses.hpp"
#include "harness/model/model.hpp"

namespace zp::bench {
namespace {

struct Asked {
  std::string model = "small";
  BatchShape shape{.batch = 4, .sequence = 256};
};

// Counts operations, and the seconds of each kernel, of the calls that it passes on.
class Watched final : public kernels::Table {
 public:
  Watched(Device& device, int64_t max_sequence)
      : inner_(kernels::make_host_table(device, {.threads = 1, .max_sequence = max_sequence})) {}

  void run(const kernels::Call& call) override {
    operations_ += operations_of(call);
    const double begin = thread_seconds();
    inner_->run(call);
    seconds_[std::string(kernels::name_of(call))] += thread_seconds() - begin;
  }
  void forget() {
    operations_ = 0.0;
    seconds_.clear();
  }
  double operations() const { return operations_; }
  const std::map<std::string, double>& seconds() const { return seconds_; }

 private:
  std::unique_ptr<kernels::Table> inner_;
  double operations_ = 0.0;
  std::map<std::string, double> seconds_;
};

// A model with its parameters and gradients whole.
class Step {
 public:
  Step(const Asked& asked, const Recipe& recipe)
      : device_(make_host_device(Fill::zero)),
        kernels_(*device_, asked.shape.sequence),
        layout_(model_units(model_preset(asked.model)), 1),
        model_(make_model(model_preset(asked.model), asked.shape, recipe, 1, *device_, kernels_)) {
    const int64_t vocabulary = model_preset(asked.model).vocabulary;
    tokens_ = Corpus::synthetic(1, 1 << 16, vocabulary)
                  .micro_batch(1, 0, 0, asked.shape.batch, asked.shape.sequence);
    for (const UnitLayout& unit : layout_.units()) {
      weights_.push_back(device_->acquire(Category::params, recipe.params, unit.padded));
      grads_.push_back(device_->acquire(Category::grads, recipe.grads, unit.padded));
      for (const TensorLayout& tensor : unit.tensors)
        initialize(weights_.back().part(tensor.in_unit), tensor);
    }
  }

  void operator()() {
    model_->begin(0, 0, tokens_);
    for (const Use& use : uses(layout_)) {
      const auto unit = static_cast<size_t>(use.unit);
      if (use.pass == Pass::forward) {
        model_->forward(use.unit, weights_[unit].all());
      } else {
        model_->backward(use.unit, weights_[unit].all(), grads_[unit].all());
      }
    }
  }
  Watched& kernels() { return kernels_; }

 private:
  void initialize(View to, const TensorLayout& tensor) {
    const Buffer whole = device_->acquire(Category::params, Type::f32, to.length());
    kernels::Initialize initial;
    initial.x = whole.all();
    initial.init = tensor.spec.init;
    initial.scale = tensor.spec.scale;
    initial.key = init_key(1, tensor.spec.name);
    kernels_.run(initial);
    kernels_.run(kernels::Cast{.from = whole.all(), .to = to});
  }

  std::unique_ptr<Device> device_;
  Watched kernels_;
  Layout layout_;
  std::unique_ptr<Model> model_;
  MicroBatch tokens_;
  std::vector<Buffer> weights_, grads_;
};

void measure(benchmark::State& state, const Asked& asked, const Recipe& recipe, const Options& options) {
  Step step(asked, recipe);
  step.kernels().forget();
  step();
  const double operations = step.kernels().operations();
  step.kernels().forget();
  int calls = 0;
  SideBySide contenders(options, thread_seconds);
  contenders.add([&] {
    step();
    ++calls;
  });
  const ProductPeaks peaks(contenders);
  run_rounds(state, contenders);
  peaks.report(state, contenders, operations);
  state.counters["ms"] = contenders.median_s(0) * 1e3;
  for (const auto& [kernel, seconds] : step.kernels().seconds()) {
    state.counters["ms " + kernel] = seconds / calls * 1e3;
  }
}

// Takes "--name=value" out of the command line.
std::string taken(int* argc, char** argv, std::string_view name, std::string otherwise) {
  const std::string key = "--" + std::string(name) + "=";
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view word = argv[i];
    if (word.substr(0, key.size()) == key) {
      otherwise = word.substr(key.size());
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  return otherwise;
}

}  // namespace
}  // namespace zp::bench

int main(int argc, char** argv) {
  using namespace zp::bench;
  Asked asked;
  asked.model = taken(&argc, argv, "model", asked.model);
  asked.shape.batch = std::stoll(taken(&argc, argv, "batch", "4"));
  asked.shape.sequence = std::stoll(taken(&argc, argv, "sequence", "256"));
  const Options options = parse(&argc, argv);
  for (const zp::Recipe& recipe : zp::kRecipes) {
    add_benchmark("step " + std::string(recipe.name), options,
                  [&](benchmark::State& state) { measure(state, asked, recipe, options); });
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
