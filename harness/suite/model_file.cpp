// The config.json of a Hugging Face GPT-2: which of its fields fix the model, and what they must be. Dropout
// is not looked at: it is left out.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/base/check.hpp"
#include "harness/suite/model_options.hpp"
#include "harness/suite/number_text.hpp"

namespace zp {
namespace {

using ModelJson = nlohmann::json;

ModelJson parsed(const std::string& path) {
  const std::string where = "--model " + path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(Exit::usage, where + ": is a folder; name a file");
  errno = 0;
  std::ifstream file(path);
  if (!file) {
    fail(Exit::usage, fmt::format("{}: {}; name the config.json of a GPT-2", where,
                                  errno != 0 ? std::strerror(errno) : "cannot be opened"));
  }
  constexpr int kDeepest = 16;  // so that whatever follows it down ends; GPT-2's own is 3 deep
  const auto within = [&](int depth, ModelJson::parse_event_t event, const ModelJson&) {
    using Event = ModelJson::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) && depth >= kDeepest)
      fail(Exit::usage, fmt::format("{}: is nested more than {} deep", where, kDeepest));
    return true;
  };
  ModelJson json = ModelJson::parse(file, within, false);
  if (!json.is_object()) fail(Exit::usage, where + ": is no JSON object; name the config.json of a GPT-2");
  return json;
}

int64_t number(const std::string& path, const ModelJson& json, const char* field) {
  if (!json.contains(field)) fail(Exit::usage, fmt::format("--model {}: lacks the field {}", path, field));
  const bool whole = json[field].is_number_unsigned();
  if (!whole || json[field].get<uint64_t>() < 1 || json[field].get<uint64_t>() > uint64_t{kMostTokens}) {
    fail(Exit::usage, fmt::format("--model {}: {} is {}; it must be a whole number from 1 to {}", path, field,
                                  json[field].dump(), kMostTokens));
  }
  return json[field].get<int64_t>();
}

// Of a field that may be absent, for what is then taken.
void expect(const std::string& path, const ModelJson& json, const char* field, const ModelJson& wanted) {
  if (!json.contains(field) || json[field] == wanted) return;
  fail(Exit::usage,
       fmt::format("--model {}: {} is {}; GPT-2 has {}", path, field, json[field].dump(), wanted.dump()));
}

}  // namespace

ModelConfig model_from_file(const std::string& path) {
  const ModelJson json = parsed(path);
  if (!json.contains("model_type")) fail(Exit::usage, "--model " + path + ": lacks the field model_type");
  expect(path, json, "model_type", "gpt2");
  ModelConfig model;
  model.name = std::filesystem::path(path).filename().string();
  model.layers = number(path, json, "n_layer");
  model.width = number(path, json, "n_embd");
  model.heads = number(path, json, "n_head");
  model.positions = number(path, json, "n_positions");
  model.vocabulary = number(path, json, "vocab_size");
  expect(path, json, "activation_function", "gelu_new");
  expect(path, json, "layer_norm_epsilon", 1e-5);
  expect(path, json, "scale_attn_weights", true);
  expect(path, json, "scale_attn_by_inverse_layer_idx", false);
  expect(path, json, "add_cross_attention", false);
  if (json.contains("n_inner") && !json["n_inner"].is_null()) expect(path, json, "n_inner", 4 * model.width);
  model.tied = true;
  if (json.contains("tie_word_embeddings")) {
    if (!json["tie_word_embeddings"].is_boolean()) {
      fail(Exit::usage, fmt::format("--model {}: tie_word_embeddings is {}; it must be true or false", path,
                                    json["tie_word_embeddings"].dump()));
    }
    model.tied = json["tie_word_embeddings"].get<bool>();
  }
  return model;
}

}  // namespace zp
