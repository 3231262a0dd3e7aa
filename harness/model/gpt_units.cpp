// The tensors of a GPT, unit by unit (a tied head borrows the embeddings), with GPT-2's initial values:
// normal of deviation 0.02, the two projections into the residual stream of each block scaled down by the
// root of how many there are.
#include <algorithm>
#include <cmath>
#include <string>

#include "harness/model/architectures.hpp"

namespace zp {
namespace {

constexpr double kDeviation = 0.02;

TensorSpec normal(std::string name, std::vector<int64_t> shape, double deviation = kDeviation) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .init = Init::normal,
          .scale = static_cast<float>(deviation)};
}

TensorSpec constant(std::string name, int64_t length, Init init) {
  return {.name = std::move(name), .shape = {length}, .init = init};
}

void append_norm(UnitSpec& unit, const std::string& name, int64_t width) {
  unit.tensors.push_back(constant(name + ".weight", width, Init::ones));
  unit.tensors.push_back(constant(name + ".bias", width, Init::zeros));
}

void append_linear(UnitSpec& unit, const std::string& name, int64_t out, int64_t in, double deviation) {
  unit.tensors.push_back(normal(name + ".weight", {out, in}, deviation));
  unit.tensors.push_back(constant(name + ".bias", out, Init::zeros));
}

void append_block(UnitSpec& unit, int64_t index, const ModelConfig& config) {
  const int64_t w = config.width;
  const double into_stream = kDeviation / std::sqrt(2.0 * static_cast<double>(config.layers));
  const std::string block = "block." + std::to_string(index);
  append_norm(unit, block + ".norm1", w);
  append_linear(unit, block + ".qkv", 3 * w, w, kDeviation);
  append_linear(unit, block + ".out", w, w, into_stream);
  append_norm(unit, block + ".norm2", w);
  append_linear(unit, block + ".up", 4 * w, w, kDeviation);
  append_linear(unit, block + ".down", w, 4 * w, into_stream);
}

// Blocks `first` to before `end`.
UnitSpec blocks(int64_t first, int64_t end, const ModelConfig& config) {
  UnitSpec unit{.name = "block." + std::to_string(first), .tensors = {}};
  if (end - first > 1) unit.name = "blocks." + std::to_string(first) + "-" + std::to_string(end - 1);
  for (int64_t block = first; block < end; ++block) append_block(unit, block, config);
  return unit;
}

}  // namespace

std::vector<UnitSpec> gpt_units(const ModelConfig& config) {
  const int64_t w = config.width;
  std::vector<UnitSpec> units;
  units.push_back({.name = "embeddings",
                   .tensors = {normal("embeddings.token.weight", {config.vocabulary, w}),
                               normal("embeddings.position.weight", {config.positions, w})}});
  for (int64_t first = 0; first < config.layers; first += config.unit_blocks) {
    units.push_back(blocks(first, std::min(first + config.unit_blocks, config.layers), config));
  }
  UnitSpec head{.name = "head", .tensors = {}};
  append_norm(head, "head.norm", w);
  if (config.tied) {
    head.borrows = 0;
  } else {
    head.tensors.push_back(normal("head.weight", {config.vocabulary, w}));
  }
  units.push_back(std::move(head));
  return units;
}

}  // namespace zp
