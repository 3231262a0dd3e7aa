// The model that a user asked for.
#include "harness/suite/model_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "harness/suite/number_text.hpp"

namespace zp {
namespace {

// layers=2,width=48,heads=3,positions=32,vocabulary=256,tied=yes
ModelConfig model_from_shapes(const std::string& text) {
  ModelConfig model;
  model.name = text;
  std::map<std::string, int64_t*> wanted{{"layers", &model.layers},
                                         {"width", &model.width},
                                         {"heads", &model.heads},
                                         {"positions", &model.positions},
                                         {"vocabulary", &model.vocabulary}};
  std::optional<bool> tied;
  for (const std::string& part : split(text)) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (!tied && (part == "tied=yes" || part == "tied=no")) {
      tied = part == "tied=yes";
      continue;
    }
    const auto found = wanted.find(key);
    if (equals == std::string::npos || found == wanted.end()) {
      fail(Exit::usage, fmt::format("--model '{}': '{}' must be one of layers, width, heads, positions and "
                                    "vocabulary, each once and with a value, or tied=yes",
                                    text, part));
    }
    *found->second = whole_number("--model: " + key, part.substr(equals + 1), 1, kMostTokens);
    wanted.erase(found);
  }
  if (!wanted.empty()) fail(Exit::usage, fmt::format("--model '{}': lacks {}", text, wanted.begin()->first));
  model.tied = tied.value_or(false);
  return model;
}

ModelConfig named(const std::string& text) {
  if (text.ends_with(".json")) return model_from_file(text);
  return text.find('=') == std::string::npos ? model_preset(text) : model_from_shapes(text);
}

void require_gpt(const Typed& typed, const ModelConfig& model, const std::string& option) {
  if (!typed.given(option) || model.architecture == Architecture::gpt) return;
  fail(Exit::usage, option + ": is for a GPT, and model " + model.name + " is none; leave it out");
}

std::vector<std::string> different(std::vector<std::string> units) {
  for (auto unit = units.begin(); unit != units.end(); ++unit) {
    if (std::find(units.begin(), unit, *unit) != unit)
      fail(Exit::usage, "--freeze: names " + *unit + " twice");
  }
  return units;
}

}  // namespace

ModelConfig model_of(const Typed& typed, const std::string& otherwise) {
  ModelConfig model = named(typed.value("--model").value_or(otherwise));
  require_gpt(typed, model, "--tied");
  require_gpt(typed, model, "--unit-blocks");
  model.tied = model.tied || typed.given("--tied");
  if (typed.given("--unit-blocks")) {
    typed.whole("--unit-blocks", model.unit_blocks, 1, std::max(model.layers, int64_t{1}));
  }
  if (const auto names = typed.value("--freeze")) model.frozen = different(split(*names));
  check_model(model);
  return model;
}

bool is_token_file(const std::string& path) { return path.ends_with(".bin"); }

}  // namespace zp
