// Presets, checks of what a user asks for, and the one place where an architecture is chosen.
#include "harness/model/model.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "harness/base/random.hpp"
#include "harness/model/architectures.hpp"

namespace zp {
namespace {

// `tiny` has an odd width, so that no unit is a multiple of 64 and every slice ends unevenly.
ModelConfig preset(std::string_view name) {
  if (name == "tiny") {
    return {.name = "tiny", .layers = 3, .width = 45, .heads = 3, .positions = 32, .vocabulary = 256};
  }
  if (name == "small") {
    return {.name = "small", .layers = 6, .width = 384, .heads = 6, .positions = 256, .vocabulary = 256};
  }
  if (name == "gpt2") {
    return {.name = "gpt2",
            .layers = 12,
            .width = 768,
            .heads = 12,
            .positions = 1024,
            .vocabulary = 50257,
            .tied = true};
  }
  if (name == "synthetic") return {.name = "synthetic", .architecture = Architecture::synthetic};
  fail(Exit::usage, "model \"" + std::string(name) + "\" is unknown; there are tiny, small, gpt2, synthetic");
}

struct Bound {
  std::string_view what;
  int64_t value, least, most;
};

// Bounds keep every product of shapes far below 2⁶³.
void check_bounds(const std::string& where, const Bound& bound) {
  if (bound.value >= bound.least && bound.value <= bound.most) return;
  fail(Exit::usage, where + ": " + std::string(bound.what) + " is " + std::to_string(bound.value) +
                        "; it must lie in " + std::to_string(bound.least) + " … " +
                        std::to_string(bound.most));
}

void check_shape(const ModelConfig& config, const BatchShape& shape) {
  const std::string where = "model \"" + config.name + "\"";
  check_bounds(where, {"sequence", shape.sequence, 1, config.positions});
  check_bounds(where, {"micro-batch size", shape.batch, 1, int64_t{1} << 20});
}

std::vector<UnitSpec> units_of(const ModelConfig& config) {
  return config.architecture == Architecture::synthetic ? synthetic_units() : gpt_units(config);
}

[[noreturn]] void refuse_to_freeze(const std::string& name, const ModelConfig& config,
                                   const std::vector<UnitSpec>& units) {
  std::string known;
  for (const UnitSpec& unit : units) known.append(known.empty() ? "" : ", ").append(unit.name);
  fail(Exit::usage,
       "model \"" + config.name + "\" has no unit \"" + name + "\" to freeze; there are " + known);
}

// Marks the units that the user froze.
std::vector<UnitSpec> frozen(std::vector<UnitSpec> units, const ModelConfig& config) {
  for (const std::string& name : config.frozen) {
    const auto unit = std::ranges::find(units, name, &UnitSpec::name);
    if (unit == units.end()) refuse_to_freeze(name, config, units);
    unit->frozen = true;
  }
  if (std::ranges::all_of(units, &UnitSpec::frozen)) {
    fail(Exit::usage,
         "model \"" + config.name + "\": every unit is frozen, and nothing is left to train; leave one out");
  }
  return units;
}

}  // namespace

ModelConfig model_preset(std::string_view name) { return preset(name); }

void check_model(const ModelConfig& config) { model_units(config); }

namespace {

void check_numbers(const ModelConfig& config) {
  if (config.architecture == Architecture::synthetic) return;
  const std::string where = "model \"" + config.name + "\"";
  const std::array bounds{Bound{"layers", config.layers, 1, 4096},
                          Bound{"width", config.width, 2, 1 << 17},  // the norm of one element is always 0
                          Bound{"heads", config.heads, 1, config.width},
                          Bound{"positions", config.positions, 1, 1 << 24},
                          Bound{"vocabulary", config.vocabulary, 2, 1 << 24},
                          Bound{"blocks in a unit", config.unit_blocks, 1, config.layers}};
  for (const Bound& bound : bounds) check_bounds(where, bound);
  if (config.width % config.heads != 0) {
    fail(Exit::usage, where + ": " + std::to_string(config.heads) + " heads do not divide width " +
                          std::to_string(config.width) + "; choose a width that is a multiple of the heads");
  }
}

}  // namespace

std::vector<UnitSpec> model_units(const ModelConfig& config) {
  check_numbers(config);
  return frozen(units_of(config), config);
}

std::vector<bool> frozen_parts(const ModelConfig& config) {
  const std::vector<UnitSpec> units = model_units(config);
  std::vector<bool> parts{units.front().frozen};
  for (int64_t block = 0; block < config.layers; ++block) {
    parts.push_back(units[static_cast<size_t>(1 + block / config.unit_blocks)].frozen);
  }
  parts.push_back(units.back().frozen);
  return parts;
}

std::unique_ptr<Model> make_model(const ModelConfig& config, const BatchShape& shape, const Recipe& recipe,
                                  uint64_t seed, Device& device, kernels::Table& kernels) {
  check_model(config);
  const ModelParts parts{
      .config = config, .shape = shape, .recipe = recipe, .seed = seed, .device = device, .kernels = kernels};
  if (config.architecture == Architecture::synthetic) return make_synthetic(parts);
  check_shape(config, shape);
  return make_gpt(parts);
}

uint64_t init_key(uint64_t seed, std::string_view tensor_name) { return key_of(seed, tensor_name); }

}  // namespace zp
