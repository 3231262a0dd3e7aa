// After a refuted bits claim: the reference is replayed to that step and one tensor is compared element by
// element.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/claim/claims.hpp"
#include "harness/trainer/trainer.hpp"

namespace zp {

struct ElementQuestion {
  std::string stage;
  int step = 0;
  Suspect suspect;
  std::function<std::vector<uint32_t>(int step, HashKind kind, int tensor)> replay;  // on rank 0
};

// Collective. One line, the same on every rank: step, stage, unit, tensor, element, rank and place that holds
// it, expected and got bits, distance in ulps; and how many elements of the tensor differ.
std::string compare_elements(const ElementQuestion& question, Trainer& trainer, Control& control);

// Distance of two values of `type` in units of the last place, counted over the representable numbers between
// them.
int64_t ulps_between(uint32_t a, uint32_t b, Type type);

}  // namespace zp
