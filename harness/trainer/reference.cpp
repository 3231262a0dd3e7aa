// One device working alone: state by tensor name, the step, and the hashes it leaves.
//
// [Note: what the reference fixes] Where the contract leaves a choice, this is it, for the reference and the
// strategies alike:
// - Powers of beta start at 1 and are multiplied once a step by the float beta, widened to fp64. A moment's
//   correction is float(1 - power).
// - Elements of the synthetic gradient, and of every hash, are numbered over the whole model in unit order.
// - Blocks of the norm run over a unit's tensors side by side, in their order: a block may span two tensors.
// - A recipe with fp32 parameters has no master, and sgd no second moment (its momentum is the first, and
//   starts at +0): hashes of what is not kept are those of nothing.
// - Frozen tensors have parameters, made as if they were trained, and no other state. Their gradient is
//   computed with all others, and dropped.
#include "harness/trainer/reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/device/host_access.hpp"
#include "harness/trainer/reference_fixed.hpp"
#include "harness/trainer/reference_gpt.hpp"
#include "harness/trainer/reference_parts.hpp"
#include "harness/trainer/reference_sums.hpp"
#include "harness/trainer/reference_units.hpp"
#include "kernels/norm.hpp"

namespace zp {
namespace {

class Alone final : public Reference {
 public:
  Alone(const ReferenceConfig& config, Device& device, kernels::Table& kernels)
      : config_(config), device_(device), kernels_(kernels) {
    require(config.arithmetic.grads == config.recipe.grads,
            "the arithmetic is that of the recipe's gradients");
    sums_ = sums_by_owner(config.arithmetic);
    units_ = numbered_units(config.model);
    if (config.model.architecture == Architecture::gpt) {
      require(config.corpus != nullptr, "a GPT learns from a corpus");
      gpt_ = make_reference_gpt(config.model, config.shape, config.recipe.grads, device, kernels);
      if (config.recipe.grads != Type::f32 || any_frozen()) image_ = acquire(Category::workspace, Type::f32);
    }
    initialise();
  }

  ReferenceStep step(const std::function<void()>& progress) override {
    ReferenceStep result;
    ReplicaHashes& replicas = result.replicas.emplace();
    result.params_before = hashes(HashKind::param, params_);
    replicas.params_before = replica_hashes(HashKind::param, params_);
    average_gradients(progress, result);
    result.grads = hashes(HashKind::grad, average_);
    replicas.grads = replica_hashes(HashKind::grad, average_);
    const double norm = gradient_norm();
    result.norm_bits = std::bit_cast<uint64_t>(norm);
    update(clip_factor(norm, config_.clip));
    result.params = hashes(HashKind::param, params_);
    const std::vector<HashSum> nothing(result.params.size());
    result.master = has_master() ? hashes(HashKind::master, master_) : nothing;
    result.m = hashes(HashKind::m, m_);
    result.v = has_v() ? hashes(HashKind::v, v_) : nothing;
    replicas.params = replica_hashes(HashKind::param, params_);
    replicas.master = has_master() ? replica_hashes(HashKind::master, master_) : nothing;
    replicas.m = replica_hashes(HashKind::m, m_);
    replicas.v = has_v() ? replica_hashes(HashKind::v, v_) : nothing;
    for (const auto* kind : {&result.params, &result.master, &result.m, &result.v}) {
      for (const HashSum& hash : *kind) result.state += hash;
    }
    ++step_;
    return result;
  }

  std::vector<uint32_t> bits(HashKind kind, int tensor) const override {
    const NumberedTensor& described = tensor_at(tensor);
    std::vector<uint32_t> out(static_cast<size_t>(described.length));
    if (described.frozen && kind != HashKind::param) return out;
    // Little-endian: the bits of a bf16 are the lower half of its word.
    const HostBytes held(state(kind).at(described.spec.name).all());
    const size_t each = held.bytes().size() / out.size();
    for (size_t i = 0; i < out.size(); ++i) std::memcpy(&out[i], held.bytes().data() + i * each, each);
    return out;
  }

 private:
  template <class F>
  void for_each_tensor(F f) const {
    for (const NumberedUnit& unit : units_) {
      for (const NumberedTensor& tensor : unit.tensors) f(tensor);
    }
  }

  template <class F>
  void for_each_trained(F f) const {
    for_each_tensor([&](const NumberedTensor& tensor) {
      if (!tensor.frozen) f(tensor);
    });
  }

  bool any_frozen() const { return std::ranges::any_of(units_, &NumberedUnit::frozen); }

  const NumberedTensor& tensor_at(int index) const {
    const NumberedTensor* found = nullptr;
    for_each_tensor([&](const NumberedTensor& tensor) {
      if (index-- == 0) found = &tensor;
    });
    require(found != nullptr, "the model has this tensor");
    return *found;
  }

  bool has_master() const { return config_.recipe.params != Type::f32; }
  bool has_v() const { return config_.optimizer == Method::adamw; }
  const Tensors& state(HashKind kind) const {
    switch (kind) {
      case HashKind::param: return params_;
      case HashKind::master: require(has_master(), "fp32 parameters have no master"); return master_;
      case HashKind::m: return m_;
      case HashKind::v: require(has_v(), "sgd has no second moments"); return v_;
      case HashKind::grad: require(!average_.empty(), "a step was run"); return average_;
    }
    fail_rule("a state has a kind", {});
  }

  Tensors acquire(Category category, Type type) {
    Tensors tensors;
    for_each_tensor([&](const NumberedTensor& tensor) {
      tensors.emplace(tensor.spec.name, device_.acquire(category, type, {tensor.length}));
    });
    return tensors;
  }

  Tensors acquire_trained(Category category, Type type) {
    Tensors tensors;
    for_each_trained([&](const NumberedTensor& tensor) {
      tensors.emplace(tensor.spec.name, device_.acquire(category, type, {tensor.length}));
    });
    return tensors;
  }

  void initialise() {
    params_ = acquire(Category::params, config_.recipe.params);
    if (has_master()) master_ = acquire_trained(Category::optimizer, Type::f32);
    m_ = acquire_trained(Category::optimizer, Type::f32);
    if (has_v()) v_ = acquire_trained(Category::optimizer, Type::f32);
    for_each_tensor([&](const NumberedTensor& tensor) {
      const std::string& name = tensor.spec.name;
      const bool passing = has_master() && tensor.frozen;
      const Buffer image =
          passing ? device_.acquire(Category::workspace, Type::f32, {tensor.length}) : Buffer();
      const View exact = passing        ? image.all()
                         : has_master() ? master_.at(name).all()
                                        : params_.at(name).all();
      kernels_.run(kernels::Initialize{.x = exact,
                                       .init = tensor.spec.init,
                                       .scale = tensor.spec.scale,
                                       .key = init_key(config_.seed, name),
                                       .first = 0});
      if (has_master()) kernels_.run(kernels::Cast{.from = exact, .to = params_.at(name).all()});
      if (tensor.frozen) return;
      for (const Tensors* moments : {&m_, &v_}) {
        if (moments->empty()) continue;
        kernels_.run(kernels::Initialize{
            .x = moments->at(name).all(), .init = Init::zeros, .scale = 0.0F, .key = 0, .first = 0});
      }
    });
  }

  [[noreturn]] void fail_at_step(const std::string& what) const {
    fail(Exit::bits, "reference, step " + std::to_string(step_) + ": " + what);
  }

  std::vector<HashSum> replica_hashes(HashKind kind, const Tensors& tensors) const {
    return hashes(kind, tensors, "", HashFunction::replica);
  }
  // Per tensor. `whose` names the state in the message of a failure.
  std::vector<HashSum> hashes(HashKind kind, const Tensors& tensors, const std::string& whose = "",
                              HashFunction function = HashFunction::state) const {
    std::vector<HashSum> result;
    for_each_tensor([&](const NumberedTensor& tensor) {
      HashSum hash;
      if (!tensors.contains(tensor.spec.name)) return result.push_back(hash);
      kernels_.run(kernels::HashRun{.x = tensors.at(tensor.spec.name).all(),
                                    .function = function,
                                    .kind = kind,
                                    .logical = tensor.logical,
                                    .sum = &hash});
      if (!hash.finite)
        fail_at_step(whose + std::string(name_of_kind(kind)) + " of " + tensor.spec.name + " is not finite");
      result.push_back(hash);
    });
    return result;
  }

  static std::string_view name_of_kind(HashKind kind) {
    switch (kind) {
      case HashKind::param: return "parameter";
      case HashKind::master: return "master";
      case HashKind::m: return "first moment";
      case HashKind::v: return "second moment";
      case HashKind::grad: return "gradient";
    }
    return "?";
  }

  // The sum over micro-batches, divided by their number and stored; losses beside it.
  void average_gradients(const std::function<void()>& progress, ReferenceStep& result) {
    const int count = config_.arithmetic.batching.micro_batches;
    losses_.assign(static_cast<size_t>(count), 0.0F);
    result.micro_batch_grads.assign(static_cast<size_t>(count), {});
    average_.clear();
    Tensors sum = config_.arithmetic.wire == GradientWire::i64 ? fixed_sum(progress, result)
                  : sums_.size() == 1                          ? evaluate(*sums_.front(), progress, result)
                                                               : sum_by_owner(progress, result);
    if (count > 1) {
      for (auto& [name, buffer] : sum) {
        Buffer average = device_.acquire(Category::grads, config_.recipe.grads, buffer.length());
        kernels_.run(kernels::Fold{
            .inputs = {buffer.all()}, .out = average.all(), .divisor = static_cast<float>(count)});
        buffer = std::move(average);
      }
    }
    average_ = std::move(sum);
    double loss = 0.0;
    for (const float of_micro_batch : losses_) loss += static_cast<double>(of_micro_batch);
    loss /= count;
    if (!std::isfinite(loss)) fail_at_step("the loss is not finite");
    result.loss_bits = std::bit_cast<uint64_t>(loss);
  }

  Tensors fixed_sum(const std::function<void()>& progress, ReferenceStep& result) {
    FixedSums sums(config_.arithmetic.batching.micro_batches);
    Tensors last;
    for (int number = 0; number < config_.arithmetic.batching.micro_batches; ++number) {
      last = micro_batch_gradient(number, progress, result);
      for (const auto& [name, gradient] : last) {
        const std::string problem = sums.add(name, gradient.all());
        if (!problem.empty()) fail_at_step("micro-batch " + std::to_string(number) + ": " + problem);
      }
    }
    for (const auto& [name, buffer] : last) sums.store(name, buffer.all());
    return last;
  }

  // The deeper side first, the lower on a tie, so that few partial sums live at once.
  Tensors evaluate(const Sum& sum, const std::function<void()>& progress, ReferenceStep& result) {
    if (sum.is_leaf()) return micro_batch_gradient(sum.micro_batch, progress, result);
    const bool low_first = sum.low->height >= sum.high->height;
    Tensors total = evaluate(low_first ? *sum.low : *sum.high, progress, result);
    Tensors other = evaluate(low_first ? *sum.high : *sum.low, progress, result);
    const Type type = sum.rounded ? config_.recipe.grads : Type::f32;
    for (auto& [name, buffer] : total) {
      Buffer& addend = other.at(name);
      const bool in_place = buffer.all().type() == type;
      Buffer fresh = in_place ? Buffer() : device_.acquire(Category::fold, type, buffer.length());
      kernels_.run(kernels::Fold{.inputs = {buffer.all(), addend.all()},
                                 .out = in_place ? buffer.all() : fresh.all(),
                                 .divisor = 1.0F});
      if (!in_place) buffer = std::move(fresh);
      addend.drop();
    }
    return total;
  }

  // Where the order of additions depends on who owns an element. Every micro-batch's gradient is kept.
  Tensors sum_by_owner(const std::function<void()>& progress, ReferenceStep& result) {
    std::vector<Tensors> gradients;
    for (int number = 0; number < config_.arithmetic.batching.micro_batches; ++number)
      gradients.push_back(micro_batch_gradient(number, progress, result));
    Tensors total = acquire_trained(Category::fold, Type::f32);
    const PartSums parts(gradients, config_.recipe.grads, device_, kernels_);
    for (const NumberedUnit& unit : units_) {
      if (unit.frozen) continue;
      std::vector<PartSums::Whole> tensors;
      for (const NumberedTensor& tensor : unit.tensors) tensors.push_back({tensor.spec.name, tensor.length});
      parts.sum_unit(tensors, sums_, total);
    }
    return total;
  }

  // As stored: in the recipe's gradient type.
  Tensors micro_batch_gradient(int number, const std::function<void()>& progress, ReferenceStep& result) {
    Tensors grads = acquire_trained(Category::grads, config_.recipe.grads);
    const auto index = static_cast<size_t>(number);
    losses_[index] = gpt_ ? gpt_gradient(number, grads) : synthetic_gradient(number, grads);
    const std::string whose = "micro-batch " + std::to_string(number) + ": ";
    for (const HashSum& hash : hashes(HashKind::grad, grads, whose)) result.micro_batch_grads[index] += hash;
    if (progress) progress();
    return grads;
  }

  float gpt_gradient(int number, const Tensors& grads) {
    const MicroBatch tokens =
        config_.corpus->micro_batch(config_.seed, step_, number, config_.shape.batch, config_.shape.sequence);
    if (image_.empty()) return gpt_->gradient(tokens, params_, grads);
    const float loss = gpt_->gradient(tokens, params_, image_);
    for (const auto& [name, stored] : grads) {
      kernels_.run(kernels::Cast{.from = image_.at(name).all(), .to = stored.all()});
    }
    return loss;
  }

  float synthetic_gradient(int number, const Tensors& grads) {
    const uint64_t key = synthetic_key(config_.seed, step_, number);
    for_each_trained([&](const NumberedTensor& tensor) {
      kernels_.run(kernels::SyntheticGradient{
          .grads = grads.at(tensor.spec.name).all(), .key = key, .first = tensor.logical});
    });
    return synthetic_loss(config_.seed, step_, number);
  }

  double gradient_norm() {
    ExactSum squares;
    for (const NumberedUnit& unit : units_) {
      if (unit.frozen) continue;
      const Buffer image = device_.acquire(Category::workspace, config_.recipe.grads, {unit.length});
      int64_t at = 0;
      for (const NumberedTensor& tensor : unit.tensors) {
        kernels_.run(kernels::Cast{.from = average_.at(tensor.spec.name).all(),
                                   .to = image.part({{at}, {at + tensor.length}})});
        at += tensor.length;
      }
      kernels_.run(kernels::SquareSum{.grads = image.all(), .sum = &squares});
    }
    if (squares.saturated()) fail_at_step("the gradient norm is not finite, or 2^45 or more");
    return std::sqrt(squares.value());
  }

  void update(float clip) {
    power1_ *= static_cast<double>(config_.beta1);
    power2_ *= static_cast<double>(config_.beta2);
    for_each_trained([&](const NumberedTensor& tensor) {
      const std::string& name = tensor.spec.name;
      const View exact = has_master() ? master_.at(name).all() : params_.at(name).all();
      const float decay = tensor.spec.shape.size() >= 2 ? config_.weight_decay : 0.0F;
      if (config_.optimizer == Method::sgd) {
        kernels_.run(kernels::Sgd{.grads = average_.at(name).all(),
                                  .master = exact,
                                  .m = m_.at(name).all(),
                                  .clip = clip,
                                  .lr = config_.lr,
                                  .momentum = config_.momentum,
                                  .decay = decay});
      } else {
        kernels_.run(kernels::AdamW{.grads = average_.at(name).all(),
                                    .master = exact,
                                    .m = m_.at(name).all(),
                                    .v = v_.at(name).all(),
                                    .clip = clip,
                                    .lr = config_.lr,
                                    .beta1 = config_.beta1,
                                    .beta2 = config_.beta2,
                                    .epsilon = config_.epsilon,
                                    .decay = decay,
                                    .correction1 = static_cast<float>(1.0 - power1_),
                                    .correction2 = static_cast<float>(1.0 - power2_)});
      }
      if (has_master()) kernels_.run(kernels::Cast{.from = exact, .to = params_.at(name).all()});
    });
  }

  ReferenceConfig config_;
  Device& device_;
  kernels::Table& kernels_;
  std::vector<std::unique_ptr<Sum>> sums_;  // one for all elements, or one per owner
  std::vector<NumberedUnit> units_;
  std::unique_ptr<ReferenceGpt> gpt_;  // null: the synthetic model
  Tensors image_;  // fp32 gradient of one micro-batch, where it is stored in another type or not at all
  Tensors params_, master_, m_, v_, average_;
  std::vector<float> losses_;  // of the step, by micro-batch number
  double power1_ = 1.0, power2_ = 1.0;
  int step_ = 0;
};

}  // namespace

std::unique_ptr<Reference> make_reference(const ReferenceConfig& config, Device& device,
                                          kernels::Table& kernels) {
  return std::make_unique<Alone>(config, device, kernels);
}

}  // namespace zp
