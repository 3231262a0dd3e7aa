// Runs one model as a strategy would, unit by unit, with each unit's weights and gradients amid memory that
// holds NaN.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/random.hpp"
#include "harness/layout/uses.hpp"
#include "harness/model/model.hpp"

namespace zp::test {

constexpr Recipe kFp32Grads = kRecipes[0];
constexpr Recipe kBf16Grads = kRecipes[1];

constexpr int64_t kBefore = 7;  // elements of the buffer in front of a unit
constexpr uint32_t kPoison = 0x7fc12345;
constexpr uint16_t kPoison16 = 0x7fc5;

struct Outcome {
  float loss = 0;
  std::vector<std::vector<float>> grads;  // by unit: logical elements, widened
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// The value of element i of a tensor of the model.
using Values = std::function<float(const TensorSpec& tensor, int64_t element)>;

// A unit amid poison.
struct Surrounded {
  Surrounded(Device& device, Category category, Type type, const UnitLayout& unit)
      : buffer(device.acquire(category, type, {kBefore + unit.padded.n + 1})),
        whole(buffer.part({{kBefore}, {kBefore + unit.padded.n}})),
        logical(unit.length.n) {
    poison();
  }

  void poison() const {
    for (int64_t i = 0; i < buffer.length().n; ++i) {
      if (whole.type() == Type::bf16) buffer.all().write<bf16>()[i] = {kPoison16};
      if (whole.type() == Type::f32) buffer.all().write<float>()[i] = std::bit_cast<float>(kPoison);
    }
  }
  // In either type, so that every recipe computes on the same weights.
  void put(int64_t i, bf16 value) const {
    if (whole.type() == Type::bf16) whole.write<bf16>()[i] = value;
    if (whole.type() == Type::f32) whole.write<float>()[i] = widen(value);
  }
  float at(int64_t i) const {
    return whole.type() == Type::bf16 ? widen(whole.read<bf16>()[i]) : whole.read<float>()[i];
  }
  // Whether everything but the logical elements is still poison.
  bool untouched_around() const {
    for (int64_t i = 0; i < buffer.length().n; ++i) {
      if (i >= kBefore && i < kBefore + logical) continue;
      if (whole.type() == Type::bf16 && buffer.all().read<bf16>()[i].bits != kPoison16) return false;
      if (whole.type() == Type::f32 && std::bit_cast<uint32_t>(buffer.all().read<float>()[i]) != kPoison) {
        return false;
      }
    }
    return true;
  }

  Buffer buffer;
  View whole;
  int64_t logical;
};

class ModelRun {
 public:
  ModelRun(const ModelConfig& config, const BatchShape& shape, const Recipe& recipe, const Values& values,
           Fill fill = Fill::zero, int world = 3)
      : device_(make_host_device(fill)),
        kernels_(kernels::make_host_table(*device_, {.threads = 1, .max_sequence = shape.sequence})),
        layout_(model_units(config), world),
        model_(make_model(config, shape, recipe, kSeed, *device_, *kernels_)) {
    for (const UnitLayout& unit : layout_.units()) {
      weights_.emplace_back(*device_, Category::params, recipe.params, unit);
      grads_.emplace_back(*device_, Category::grads, recipe.grads, unit);
      int64_t at = 0;
      for (const TensorLayout& tensor : unit.tensors) {
        for (int64_t i = 0; i < tensor.in_unit.length().n; ++i) {
          weights_.back().put(at++, round_to_bf16(values(tensor.spec, i)));
        }
      }
    }
  }

  Outcome run(int step, int number, const MicroBatch& tokens) {
    model_->begin(step, number, tokens);
    Outcome outcome;
    for (const Use& use : uses(layout_)) {
      const auto unit = static_cast<size_t>(use.unit);
      if (use.pass == Pass::forward) {
        model_->forward(use.unit, views(weights_, use.unit));
        if (use.unit == layout_.unit_count() - 1) outcome.loss = model_->loss();
      } else {
        // What a unit borrows is written from here on; what was borrowed of it holds the borrower's part.
        if (!is_borrowed(use.unit)) grads_[unit].poison();
        if (layout_.unit(use.unit).borrows >= 0) borrowed_of(grads_, use.unit)->poison();
        model_->backward(use.unit, views(weights_, use.unit), views(grads_, use.unit));
      }
    }
    for (const Surrounded& grads : grads_) {
      outcome.grads.emplace_back();
      for (int64_t i = 0; i < grads.logical; ++i) outcome.grads.back().push_back(grads.at(i));
    }
    return outcome;
  }

  const Layout& layout() const { return layout_; }
  const std::vector<Surrounded>& weights() const { return weights_; }
  const std::vector<Surrounded>& grads() const { return grads_; }

  static constexpr uint64_t kSeed = 11;

 private:
  const Surrounded* borrowed_of(const std::vector<Surrounded>& list, int unit) const {
    const int borrowed = layout_.unit(unit).borrows;
    return borrowed < 0 ? nullptr : &list[static_cast<size_t>(borrowed)];
  }

  UnitViews views(const std::vector<Surrounded>& list, int unit) const {
    const Surrounded* borrowed = borrowed_of(list, unit);
    return {list[static_cast<size_t>(unit)].whole, borrowed == nullptr ? View() : borrowed->whole};
  }

  bool is_borrowed(int unit) const {
    return std::ranges::any_of(layout_.units(), [unit](const UnitLayout& u) { return u.borrows == unit; });
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<kernels::Table> kernels_;
  Layout layout_;
  std::unique_ptr<Model> model_;
  std::vector<Surrounded> weights_, grads_;
};

// Weights far from their initial values, so that every tensor matters: gains about 1, all else about 0.
inline float lively(const TensorSpec& tensor, int64_t element) {
  const float noise = random_normal(key_of(5, tensor.name), static_cast<uint64_t>(element), 0.3F);
  return tensor.init == Init::ones ? 1.0F + noise : noise;
}

}  // namespace zp::test
