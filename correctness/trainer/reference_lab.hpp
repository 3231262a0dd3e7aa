// What tests of the reference share: a small GPT and its text, and a reference with the device and table it
// runs on.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "harness/trainer/reference.hpp"

namespace zp::lab {

inline constexpr int64_t kVocabulary = 29;
inline constexpr Recipe kFp32Grads = kRecipes[0], kBf16Grads = kRecipes[1], kFp32 = kRecipes[2];

// What the optimizer updates.
inline HashKind exact_kind(const Recipe& recipe) {
  return has_master(recipe) ? HashKind::master : HashKind::param;
}

// As gradients of this type are stored.
inline float stored(float x, Type type) { return type == Type::bf16 ? widen(round_to_bf16(x)) : x; }

inline const Corpus& corpus() {
  static const Corpus text = Corpus::synthetic(5, 4000, kVocabulary);
  return text;
}

inline Arithmetic alone(int micro_batches, Type grads) {
  return {Reduction::after_accumulation, {1, micro_batches}, Algorithm::direct, grads};
}

inline ReferenceConfig small_gpt(const Recipe& recipe, int micro_batches) {
  ReferenceConfig config;
  config.model.name = "test";
  config.model.layers = 2;
  config.model.width = 20;
  config.model.heads = 2;
  config.model.positions = 12;
  config.model.vocabulary = kVocabulary;
  config.shape = {.batch = 2, .sequence = 11};
  config.recipe = recipe;
  config.arithmetic = alone(micro_batches, recipe.grads);
  config.seed = 3;
  config.clip = 0.0;
  config.lr = 1e-2F;
  config.beta1 = 0.9F;
  config.beta2 = 0.95F;
  config.epsilon = 1e-8F;
  config.weight_decay = 0.1F;
  config.corpus = &corpus();
  return config;
}

// A device, a table and a reference that live together.
struct Lab {
  explicit Lab(const ReferenceConfig& config, int threads = 1, Fill fill = Fill::nan)
      : device(make_host_device(fill)),
        table(make_table(*device, config, threads)),
        reference(make_reference(config, *device, *table)) {
    for (const UnitSpec& unit : model_units(config.model)) {
      tensors.insert(tensors.end(), unit.tensors.begin(), unit.tensors.end());
    }
  }

  static std::unique_ptr<kernels::Table> make_table(Device& device, const ReferenceConfig& config,
                                                    int threads) {
    kernels::HostOptions options;
    options.threads = threads;
    options.max_sequence = std::max<int64_t>(1, config.shape.sequence);
    return kernels::make_host_table(device, options);
  }

  ReferenceStep step() {
    return reference->step([] {});
  }

  std::vector<ReferenceStep> steps(int count) {
    std::vector<ReferenceStep> all(static_cast<size_t>(count));
    for (ReferenceStep& one : all) one = step();
    return all;
  }

  // A tensor's parameters, in a buffer of their own.
  Buffer parameters(size_t tensor, Type type) const {
    const auto bits = reference->bits(HashKind::param, static_cast<int>(tensor));
    Buffer buffer = device->acquire(Category::params, type, {static_cast<int64_t>(bits.size())});
    for (size_t e = 0; e < bits.size(); ++e) {
      if (type == Type::bf16) buffer.all().write<bf16>()[e] = bf16{static_cast<uint16_t>(bits[e])};
      if (type == Type::f32) buffer.all().write<float>()[e] = std::bit_cast<float>(bits[e]);
    }
    return buffer;
  }

  std::vector<float> values(HashKind kind, size_t tensor, Type type) const {
    std::vector<float> out;
    for (const uint32_t bits : reference->bits(kind, static_cast<int>(tensor))) {
      out.push_back(type == Type::bf16 ? widen(bf16{static_cast<uint16_t>(bits)})
                                       : std::bit_cast<float>(bits));
    }
    return out;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<kernels::Table> table;
  std::unique_ptr<Reference> reference;
  std::vector<TensorSpec> tensors;  // by index over the whole model
};

inline double loss_of(const ReferenceStep& step) { return std::bit_cast<double>(step.loss_bits); }

inline HashSum hash_of(HashKind kind, int64_t logical, const std::vector<uint32_t>& bits) {
  HashSum sum;
  for (size_t i = 0; i < bits.size(); ++i) {
    const auto index = (static_cast<uint64_t>(kind) << 48) + static_cast<uint64_t>(logical) + i;
    sum += hash_element(index, bits[i]);
  }
  return sum;
}

}  // namespace zp::lab
