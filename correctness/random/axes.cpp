// The table of axes, and what a configuration is as a command line.
#include "correctness/random/axes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "harness/base/random.hpp"
#include "harness/base/type.hpp"
#include "harness/model/model.hpp"
#include "harness/suite/stages.hpp"

namespace zp::drawn {
namespace {

int number(const Configuration& configuration, const std::string& axis) {
  return std::stoi(configuration.at(axis));
}

// No layers stand for the synthetic model, which has units smaller than most worlds.
bool is_gpt(const Configuration& above) { return number(above, "layers") > 0; }
bool of_gpt(const Configuration& above, const std::string&) { return is_gpt(above); }

bool gathers_ahead(const Configuration& above, const std::string&) {
  return above.at("--stages").starts_with("zero3");
}
bool keeps(const Configuration& above, const std::string&) { return above.at("--stages") == "zero3"; }

bool divides_width(const Configuration& above, const std::string& value) {
  return is_gpt(above) && number(above, "width") % std::stoi(value) == 0;
}
bool at_most_layers(const Configuration& above, const std::string& value) {
  return number(above, "layers") >= std::stoi(value);
}
bool divides_ranks(const Configuration& above, const std::string& value) {
  return number(above, "--ranks") % std::stoi(value) == 0;
}
bool goes_with_ranks(const Configuration& above, const std::string& value) {
  return value != "halving" || std::has_single_bit(static_cast<unsigned>(number(above, "--ranks")));
}
bool of_adamw(const Configuration& above, const std::string&) { return above.at("--optimizer") != "sgd"; }
bool of_fp32_gradients(const Configuration& above, const std::string&) {
  return above.at("--recipe") != "bf16";
}

bool of_sgd(const Configuration& above, const std::string&) { return above.at("--optimizer") == "sgd"; }

std::vector<std::string> stage_names() {
  std::vector<std::string> names;
  for (const StageRow& row : stages()) names.emplace_back(row.name());
  return names;
}

// The first is the default.
std::vector<std::string> recipe_names() {
  std::vector<std::string> names{""};
  for (size_t i = 1; i < kRecipes.size(); ++i) names.emplace_back(kRecipes[i].name);
  return names;
}

// ---- A configuration as words

ModelConfig model_of(const Configuration& configuration) {
  if (!is_gpt(configuration)) return model_preset("synthetic");
  ModelConfig model;
  model.name = fmt::format("layers={},width={},heads={},positions={},vocabulary={}",
                           configuration.at("layers"), configuration.at("width"), configuration.at("heads"),
                           configuration.at("positions"), configuration.at("vocabulary"));
  model.layers = number(configuration, "layers");
  model.width = number(configuration, "width");
  model.heads = number(configuration, "heads");
  model.positions = number(configuration, "positions");
  model.vocabulary = number(configuration, "vocabulary");
  model.tied = !configuration.at("--tied").empty();
  if (!configuration.at("--unit-blocks").empty()) model.unit_blocks = number(configuration, "--unit-blocks");
  return model;
}

// Names of the frozen units, which the axis gives by where they stand, or by name.
std::string frozen_units(const Configuration& configuration) {
  const std::string& which = configuration.at("--freeze");
  std::vector<std::string> names;
  for (const UnitSpec& unit : model_units(model_of(configuration))) names.push_back(unit.name);
  if (which == "first") return names.front();
  if (which == "second") return names[1];
  if (which == "last") return names.back();
  if (which == "ends") return names.front() + "," + names.back();
  if (which == "but first") return fmt::format("{}", fmt::join(names.begin() + 1, names.end(), ","));
  if (which == "but last") return fmt::format("{}", fmt::join(names.begin(), names.end() - 1, ","));
  return which;
}

bool fits(const Axis& axis, const Configuration& above, const std::string& value) {
  return value == axis.values.front() || axis.fits == nullptr || axis.fits(above, value);
}

}  // namespace

const std::vector<Axis>& axes() {
  static const std::vector<Axis> table{
      {"--stages", stage_names()},
      {"--ranks", {"1", "2", "3", "4", "5", "6", "7", "8"}},
      {"micro-steps", {"1", "2", "3", "4", "5", "7"}},
      {"layers", {"0", "1", "2", "3", "4"}},
      {"width", {"4", "2", "3", "6", "9", "12", "32", "33"}, of_gpt},
      {"heads", {"1", "2", "3"}, divides_width},
      {"positions", {"16", "12", "24", "70"}, of_gpt},  // more than a block of attention's too
      {"vocabulary", {"64", "37", "99"}, of_gpt},
      {"--steps", {"1", "2", "3"}},
      {"--seq", {"", "11"}, of_gpt},
      {"--micro-batch-size", {"", "2", "3"}, of_gpt},
      {"--recipe", recipe_names()},
      {"--wire", {"", "i64"}, of_fp32_gradients},
      {"--optimizer", {"", "sgd"}},
      {"--accumulate", {"", "sequential"}},
      {"--tied", {"", "yes"}, of_gpt},
      {"--unit-blocks", {"", "2", "3"}, at_most_layers},
      {"--freeze", {"", "first", "second", "last", "ends", "but first", "but last"}},
      {"--keep", {"", "1", "2", "9"}, keeps},
      {"--algorithm", {"", "direct", "ring", "halving"}, goes_with_ranks},
      {"--ranks-per-node", {"", "1", "2", "3", "4"}, divides_ranks},
      {"--clip", {"", "0", "1e-30", "0.001", "1000"}},
      {"--lr", {"", "0.01"}},
      {"--weight-decay", {"", "0"}},
      {"--betas", {"", "0,0", "0.8,0.9"}, of_adamw},
      {"--momentum", {"", "0", "0.5"}, of_sgd},
      {"--bucket-mb", {"", "0.0003", "0.002", "0.02"}},
      {"--prefetch", {"", "1", "2", "9"}, gathers_ahead},
      {"--overlap", {"", "on"}},
      {"--threads", {"1", "2", "3"}},
      {"--seed", {"", "7", "18446744073709551615"}},
  };
  return table;
}

Configuration draw(uint64_t seed, uint64_t number, const Configuration& pinned) {
  Configuration drawn;
  for (const Axis& axis : axes()) {
    if (const auto pin = pinned.find(axis.name); pin != pinned.end()) {
      drawn[axis.name] = pin->second;
      continue;
    }
    std::vector<std::string> fitting;
    for (const std::string& value : axis.values) {
      if (fits(axis, drawn, value)) fitting.push_back(value);
    }
    drawn[axis.name] = fitting[random_bits(key_of(seed, axis.name), number) % fitting.size()];
  }
  return drawn;
}

Configuration with(const Configuration& configuration, const std::string& axis, const std::string& value) {
  Configuration changed = configuration;
  changed[axis] = value;
  for (const Axis& below : axes()) {
    if (below.name != axis && !fits(below, changed, changed.at(below.name))) {
      changed[below.name] = below.values.front();
    }
  }
  return changed;
}

std::vector<std::string> words(const Configuration& configuration) {
  const int micro_batches = number(configuration, "--ranks") * number(configuration, "micro-steps");
  std::vector<std::string> typed{"verify", "--model", model_of(configuration).name, "--micro-batches",
                                 std::to_string(micro_batches)};
  for (const Axis& axis : axes()) {
    const std::string& value = configuration.at(axis.name);
    if (!axis.name.starts_with("--") || value.empty()) continue;
    typed.push_back(axis.name);
    if (axis.name == "--freeze") {
      typed.push_back(frozen_units(configuration));
    } else if (axis.name != "--tied") {
      typed.push_back(value);
    }
  }
  return typed;
}

std::string command_line(const Configuration& configuration) {
  return fmt::format("zeroproof {}", fmt::join(words(configuration), " "));
}

}  // namespace zp::drawn
