// The tensors of a GPT, unit by unit, with GPT-2's initial values: normal of deviation 0.02, the two
// projections into the residual stream of each block scaled down by the root of how many there are.
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
  unit.tensors.push_back(constant(unit.name + "." + name + ".weight", width, Init::ones));
  unit.tensors.push_back(constant(unit.name + "." + name + ".bias", width, Init::zeros));
}

void append_linear(UnitSpec& unit, const std::string& name, int64_t out, int64_t in, double deviation) {
  unit.tensors.push_back(normal(unit.name + "." + name + ".weight", {out, in}, deviation));
  unit.tensors.push_back(constant(unit.name + "." + name + ".bias", out, Init::zeros));
}

UnitSpec block(int64_t index, const ModelConfig& config) {
  const int64_t w = config.width;
  const double into_stream = kDeviation / std::sqrt(2.0 * static_cast<double>(config.layers));
  UnitSpec unit{.name = "block." + std::to_string(index), .tensors = {}};
  append_norm(unit, "norm1", w);
  append_linear(unit, "qkv", 3 * w, w, kDeviation);
  append_linear(unit, "out", w, w, into_stream);
  append_norm(unit, "norm2", w);
  append_linear(unit, "up", 4 * w, w, kDeviation);
  append_linear(unit, "down", w, 4 * w, into_stream);
  return unit;
}

}  // namespace

std::vector<UnitSpec> gpt_units(const ModelConfig& config) {
  const int64_t w = config.width;
  std::vector<UnitSpec> units;
  units.push_back({.name = "embeddings",
                   .tensors = {normal("embeddings.token.weight", {config.vocabulary, w}),
                               normal("embeddings.position.weight", {config.positions, w})}});
  for (int64_t i = 0; i < config.layers; ++i) units.push_back(block(i, config));
  UnitSpec head{.name = "head", .tensors = {}};
  append_norm(head, "norm", w);
  head.tensors.push_back(normal("head.weight", {config.vocabulary, w}));
  units.push_back(std::move(head));
  return units;
}

}  // namespace zp
