// The synthetic model: no forward, no activations; its gradients are small dyadic numbers that differ at
// every (seed, step, micro-batch, element), so their sums are exact in any order and any transport can be
// checked exactly.
#include <string>

#include "harness/base/random.hpp"
#include "harness/model/architectures.hpp"

namespace zp {
namespace {

class Synthetic final : public Model {
 public:
  explicit Synthetic(const ModelParts& parts)
      : seed_(parts.seed), recipe_(parts.recipe), kernels_(parts.kernels), layout_(synthetic_units(), 1) {}

  void begin(int step, int number, const MicroBatch&) override {
    step_ = step;
    number_ = number;
  }

  void forward(int unit, const UnitViews& weights) override { check(unit, weights.own, recipe_.params); }

  void backward(int unit, const UnitViews& weights, const UnitViews& grads) override {
    check(unit, weights.own, recipe_.params);
    if (grads.own.empty()) return;
    check(unit, grads.own, recipe_.grads);
    const UnitLayout& u = layout_.unit(unit);
    kernels_.run(kernels::SyntheticGradient{.grads = grads.own.part({{0}, u.length}),
                                            .key = synthetic_key(seed_, step_, number_),
                                            .first = u.logical_begin.n});
  }

  float loss() const override { return synthetic_loss(seed_, step_, number_); }

 private:
  void check(int unit, View view, Type type) const {
    require(unit >= 0 && unit < layout_.unit_count(), "a unit belongs to the model");
    require(view.type() == type, "a unit's view has the recipe's type");
    require(view.length() >= layout_.unit(unit).length, "a unit's view holds all of its tensors");
  }

  const uint64_t seed_;
  const Recipe recipe_;
  kernels::Table& kernels_;
  const Layout layout_;  // of one place: only lengths and logical begins are used
  int step_ = 0, number_ = 0;
};

TensorSpec tensor(std::string name, std::vector<int64_t> shape) {
  return {.name = std::move(name), .shape = std::move(shape), .init = Init::normal, .scale = 0.02F};
}

}  // namespace

// Lengths that exercise slices: matrices and vectors of odd size, one element more than a multiple of 64, and
// fewer elements than ranks, and a single one.
std::vector<UnitSpec> synthetic_units() {
  return {
      {.name = "odd", .tensors = {tensor("odd.weight", {17, 23}), tensor("odd.bias", {5})}},
      {.name = "over", .tensors = {tensor("over.bias", {3 * 64 + 1})}},
      {.name = "few", .tensors = {tensor("few.bias", {3})}},
      {.name = "one", .tensors = {tensor("one.bias", {1})}},
      {.name = "wide",
       .tensors = {tensor("wide.bias", {29}), tensor("wide.weight", {31, 37}), tensor("wide.scale", {1})}}};
}

std::unique_ptr<Model> make_synthetic(const ModelParts& parts) { return std::make_unique<Synthetic>(parts); }

uint64_t synthetic_key(uint64_t seed, int step, int micro_batch) {
  const auto counter = (uint64_t{static_cast<uint32_t>(step)} << 32) | static_cast<uint32_t>(micro_batch);
  return random_bits(key_of(seed, "synthetic gradient"), counter);
}

float synthetic_loss(uint64_t seed, int step, int micro_batch) {
  const uint64_t bits = random_bits(key_of(seed, "synthetic loss"), synthetic_key(seed, step, micro_batch));
  return static_cast<float>(bits % 65) * 0.125F;  // 0 … 8
}

}  // namespace zp
