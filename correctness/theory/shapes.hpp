// Layouts and trainings that theory's tests share: odd sizes, several units, places out of rank order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/layout/layout.hpp"
#include "harness/layout/training.hpp"
#include "harness/theory/shape.hpp"

namespace zp::theory {

inline UnitSpec unit_of(const std::string& name, const std::vector<std::vector<int64_t>>& shapes) {
  UnitSpec unit{.name = name, .tensors = {}};
  for (const auto& shape : shapes) {
    TensorSpec tensor;
    tensor.name = name + "." + std::to_string(unit.tensors.size());
    tensor.shape = shape;
    unit.tensors.push_back(tensor);
  }
  return unit;
}

inline std::vector<UnitSpec> odd_units() {
  return {unit_of("a", {{7, 31}, {31}}), unit_of("b", {{5}}), unit_of("c", {{129, 9}, {1}, {64}})};
}

// Slices of more than one receive piece.
inline std::vector<UnitSpec> long_units() {
  return {unit_of("a", {{70001, 13}}), unit_of("b", {{9}}), unit_of("c", {{300007}})};
}

inline Places turned(int world) {
  Places places;
  for (int place = 0; place < world; ++place) places.rank_at.push_back((place + 1) % world);
  return places;
}

inline Training training_of(int world, int micro_steps, const Recipe& recipe = kRecipes[0]) {
  Training training;
  training.recipe = recipe;
  training.batching = {world, world * micro_steps};
  return training;
}

// Every way of updating parameters and of adding micro-steps, in every recipe and on every wire.
inline std::vector<Training> trainings_of(int world, int micro_steps) {
  std::vector<Training> all;
  for (const Recipe& recipe : kRecipes) {
    for (const Method method : kMethods) {
      for (const Accumulate accumulate : {Accumulate::fold, Accumulate::sequential}) {
        Training training = training_of(world, micro_steps, recipe);
        training.optimizer = method;
        training.batching.accumulate = accumulate;
        all.push_back(training);
        if (recipe.grads != Type::f32) continue;
        all.push_back(training);
        all.back().wire = GradientWire::i64;
      }
    }
  }
  return all;
}

// GPT-2 architecture, untied: the units of a model, from its shapes.
inline std::vector<UnitSpec> gpt_units(const GptShape& s) {
  const int64_t w = s.width;
  std::vector<UnitSpec> units{unit_of("embeddings", {{s.vocabulary, w}, {s.positions, w}})};
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    units.push_back(unit_of(
        "block." + std::to_string(layer),
        {{w}, {w}, {3 * w, w}, {3 * w}, {w, w}, {w}, {w}, {w}, {4 * w, w}, {4 * w}, {w, 4 * w}, {w}}));
  }
  units.push_back(unit_of("head", {{w}, {w}, {s.vocabulary, w}}));
  return units;
}

}  // namespace zp::theory
