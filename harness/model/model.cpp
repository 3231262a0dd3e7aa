// Presets, checks of what a user asks for, and the one place where an architecture is chosen.
#include "harness/model/model.hpp"

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
  if (name == "synthetic") return {.name = "synthetic", .architecture = Architecture::synthetic};
  fail(Exit::usage, "model \"" + std::string(name) + "\" is unknown; there are tiny, small, synthetic");
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

}  // namespace

ModelConfig model_preset(std::string_view name) { return preset(name); }

void check_model(const ModelConfig& config) {
  if (config.architecture == Architecture::synthetic) return;
  const std::string where = "model \"" + config.name + "\"";
  const std::array bounds{Bound{"layers", config.layers, 1, 4096}, Bound{"width", config.width, 1, 1 << 17},
                          Bound{"heads", config.heads, 1, config.width},
                          Bound{"positions", config.positions, 1, 1 << 24},
                          Bound{"vocabulary", config.vocabulary, 2, 1 << 24}};
  for (const Bound& bound : bounds) check_bounds(where, bound);
  if (config.width % config.heads != 0) {
    fail(Exit::usage, where + ": " + std::to_string(config.heads) + " heads do not divide width " +
                          std::to_string(config.width) + "; choose a width that is a multiple of the heads");
  }
}

std::vector<UnitSpec> model_units(const ModelConfig& config) {
  check_model(config);
  return config.architecture == Architecture::synthetic ? synthetic_units() : gpt_units(config);
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
