// Records as JSON Lines.
#include "harness/report/record.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/report/manifest.hpp"
#include "harness/report/statistics.hpp"

namespace zp {

namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// A state with a NaN or Inf has no hash.
Json hash_or_null(const HashSum& hash) { return hash.finite ? Json(to_string(hash)) : Json(nullptr); }

std::string_view name_of(Finding finding) {
  switch (finding) {
    case Finding::proved: return "proved";
    case Finding::refuted: return "refuted";
    case Finding::not_measured: return "not measured";
  }
  return "?";
}

Json holds_or_null(const Verdict& verdict) {
  return verdict.finding == Finding::not_measured ? Json(nullptr) : Json(verdict.holds());
}

Json config_json(const RunSettings& s) {
  Json json;
  json["contract"] = s.contract;
  json["model"] = s.model;
  json["parameters"] = s.parameters;
  json["layers"] = s.layers;
  json["width"] = s.width;
  json["heads"] = s.heads;
  json["vocabulary"] = s.vocabulary;
  json["tied"] = s.tied;
  json["unit_blocks"] = s.unit_blocks;
  json["frozen"] = s.frozen;
  json["data"] = s.data;
  json["data_hash"] = s.data_hash;
  json["ranks"] = s.ranks;
  json["nodes"] = s.nodes;
  json["transport"] = s.transport;
  json["algorithm"] = s.algorithm;
  json["threads"] = s.threads;
  json["device"] = s.device;
  json["steps"] = s.steps;
  json["micro_batches"] = s.micro_batches;
  json["accumulate"] = s.accumulate;
  json["micro_batch_size"] = s.micro_batch_size;
  json["sequence"] = s.sequence;
  json["recipe"] = s.recipe;
  json["wire"] = s.wire;
  json["optimizer"] = s.optimizer;
  json["lr"] = s.lr;
  const bool adamw = s.optimizer == "adamw";
  json["beta1"] = adamw ? Json(s.beta1) : Json(nullptr);
  json["beta2"] = adamw ? Json(s.beta2) : Json(nullptr);
  json["epsilon"] = adamw ? Json(s.epsilon) : Json(nullptr);
  json["momentum"] = adamw ? Json(nullptr) : Json(s.momentum);
  json["weight_decay"] = s.weight_decay;
  json["clip"] = s.clip;
  json["seed"] = s.seed;
  json["bucket_bytes"] = s.bucket_bytes == 0 ? Json(nullptr) : Json(s.bucket_bytes);
  json["prefetch"] = s.prefetch;
  json["keep"] = s.keep;
  json["overlap"] = s.overlap;
  json["timeout_s"] = s.timeout_s;
  return json;
}

Json host_json(const RunSettings& s) {
  Json json;
  json["host"] = s.host;
  json["os"] = s.os;
  json["cpu"] = s.cpu;
  json["cores"] = s.cores;
  json["memory_available_bytes"] = s.memory_available.n;
  json["compiler"] = s.compiler;
  json["mpi"] = text_or_null(s.mpi);
  return json;
}

Json verdicts_json(const StageResult& stage) {
  Json json;
  for (const Verdict& verdict : stage.verdicts) {
    Json& claim = json[std::string(zp::name_of(verdict.claim))];
    claim["verdict"] = name_of(verdict.finding);
    claim["holds"] = holds_or_null(verdict);
    claim["evidence"] = verdict.evidence;
  }
  return json;
}

// Every key of either map, so that what is held but not predicted shows, and the reverse.
template <class Key, class Keys>
Json beside_json(const Keys& keys, const std::map<Key, Bytes>& got, const std::map<Key, Bytes>& predicted,
                 const char* got_name) {
  Json json = Json::object();
  for (const Key key : keys) {
    const auto a = got.find(key);
    const auto b = predicted.find(key);
    if (a == got.end() && b == predicted.end()) continue;
    Json& line = json[std::string(zp::name_of(key))];
    line[got_name] = a == got.end() ? 0 : a->second.n;
    line["predicted"] = b == predicted.end() ? 0 : b->second.n;
  }
  return json;
}

Json device_json(const std::optional<DeviceEvidence>& device) {
  if (!device) return nullptr;
  const auto bytes_or_null = [](const std::optional<Bytes>& bytes) {
    return bytes ? Json(bytes->n) : Json(nullptr);
  };
  const bool compared = device->grain.n > 0;
  Json json;
  json["grain_bytes"] = compared ? Json(device->grain.n) : Json(nullptr);
  json["pool_used_most_bytes"] = device->used_most.n;
  json["ledger_taken_most_bytes"] = compared ? Json(device->taken_most.n) : Json(nullptr);
  json["pool_used_after_step_bytes"] = device->used.n;
  json["ledger_taken_after_step_bytes"] = compared ? Json(device->taken.n) : Json(nullptr);
  json["pool_reserved_most_bytes"] = device->reserved_most.n;
  json["context_bytes"] = bytes_or_null(device->context);
  json["library_bytes"] = bytes_or_null(device->library);
  json["rest_bytes"] = bytes_or_null(device->rest);
  return json;
}

void add_verdicts(Json& json, const StageResult& stage) {
  json["proved"] = stage.proved();
  json["verdicts"] = verdicts_json(stage);
}

void add_numbers(Json& json, const StageResult& stage, int nodes) {
  const double rate = tokens_per_s(stage);
  const bool ran = stage.steps_done > 0;
  json["steps_done"] = stage.steps_done;
  json["step_times_s"] = stage.step_times_s;
  json["checked_step_times_s"] = stage.checked_step_times_s;
  json["tokens_per_step"] = stage.tokens_per_step;
  json["tokens_per_s"] = stage.refuted() || rate <= 0 ? Json(nullptr) : Json(rate);
  json["peak_bytes"] = ran ? Json(stage.peak.n) : Json(nullptr);
  json["held_at_peak_bytes"] = beside_json(kCategories, stage.held_at_peak, stage.predicted_at_peak, "held");
  json["device_memory"] = device_json(stage.device);
  const bool sent = ran && stage.sent_measured;
  json["sent_bytes"] = sent ? Json(stage.sent_per_step.n) : Json(nullptr);
  json["sent_by_purpose_bytes"] =
      stage.sent_measured ? beside_json(kPurposes, stage.sent_by_purpose, stage.predicted_by_purpose, "sent")
                          : Json(nullptr);
  json["crossing_bytes"] = sent && nodes > 1 ? Json(stage.crossing.n) : Json(nullptr);
  json["passes"] = sent ? Json(stage.passes) : Json(nullptr);
  json["losses"] = stage.losses;
  json["hash"] = ran && !stage.refuted() ? hash_or_null(stage.hash) : Json(nullptr);
}

void write_lines(const std::string& path, Existing existing, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  write_file(path, existing, text);
}

Json ideal_json(const theory::IdealRow& row) {
  Json json;
  json["stage"] = row.stage;
  json["params_bytes"] = row.params;
  json["grads_bytes"] = row.grads;
  json["optimizer_bytes"] = row.optimizer;
  json["held_bytes"] = row.held();
  json["gathered_bytes"] = row.gathered;
  json["sent_params_bytes"] = row.sent_params;
  json["sent_grads_bytes"] = row.sent_grads;
  json["sent_bytes"] = row.sent();
  json["passes"] = row.passes;
  return json;
}

Json held_json(const theory::HeldLines& lines) {
  Json json = Json::object();
  for (const auto& [category, bytes] : lines) json[std::string(zp::name_of(category))] = bytes.n;
  return json;
}

Json sent_json(const theory::SentLines& lines) {
  Json json = Json::object();
  for (const auto& [purpose, peers] : lines) {
    int64_t messages = 0, bytes = 0;
    for (const auto& [peer, sent] : peers) {
      messages += sent.messages;
      bytes += sent.bytes.n;
    }
    json[std::string(zp::name_of(purpose))] = Json{{"bytes", bytes}, {"messages", messages}};
  }
  return json;
}

Json exact_json(const PlanExact& exact) {
  Json json;
  json["model"] = exact.model;
  json["parameters"] = exact.parameters.n;
  json["padded"] = exact.padded.n;
  json["algorithm"] = zp::name_of(exact.algorithm);
  json["threads"] = exact.threads;
  json["micro_batches"] = exact.micro_batches;
  json["accumulate"] = zp::name_of(exact.accumulate);
  json["micro_batch_size"] = exact.micro_batch_size;
  json["sequence"] = exact.sequence;
  for (const PlanUnit& unit : exact.units) {
    json["units"].push_back(Json{{"name", unit.name},
                                 {"parameters", unit.parameters.n},
                                 {"slice", unit.slice.n},
                                 {"padded", unit.padded.n}});
  }
  for (const theory::ExactRow& row : exact.rows) {
    Json& stage = json["stages"].emplace_back();
    stage["stage"] = row.stage;
    stage["states_bytes"] = held_json(row.states);
    stage["transient_bytes"] = held_json(row.transient);
    stage["held_at_peak_bytes"] = held_json(row.at_peak);
    stage["peak_bytes"] = theory::total(row.at_peak).n;
    stage["sent_by_purpose"] = sent_json(row.sent);
    stage["passes"] = row.passes;
  }
  return json;
}

Json array_json(const DumpedArray& array) {
  const auto number_or_null = [](int64_t number) { return number < 0 ? Json(nullptr) : Json(number); };
  Json json;
  json["file"] = array.file;
  json["stage"] = array.stage;
  json["step"] = number_or_null(array.step);
  json["micro_batch"] = number_or_null(array.micro_batch);
  json["rank"] = array.rank;
  json["kind"] = array.kind;
  json["tensor"] = text_or_null(array.tensor);
  json["first"] = number_or_null(array.first);
  json["shape"] = array.shape;
  json["type"] = array.type;
  return json;
}

std::string plan_line(const PlanResult& plan) {
  Json json;
  json["schema"] = "zeroproof/plan/1";
  json["verdict"] = "not measured";
  json["parameters"] = plan.numbers.parameters;
  json["ranks"] = plan.numbers.ranks;
  json["recipe"] = plan.numbers.recipe.name;
  json["optimizer"] = zp::name_of(plan.numbers.optimizer);
  json["micro_steps"] = plan.numbers.micro_steps;
  const bool fixed = plan.numbers.wire == GradientWire::i64;
  json["wire"] = fixed ? "i64" : zp::name_of(plan.numbers.recipe.grads);
  for (const theory::IdealRow& row : plan.rows) json["stages"].push_back(ideal_json(row));
  json["loss_bytes"] = plan.loss_bytes;
  json["norm_bytes"] = plan.norm_bytes;
  json["exact"] = plan.has_exact ? exact_json(plan.exact) : Json(nullptr);
  return line_of(json);
}

}  // namespace

Record::Record(const RunResult& run) {
  require(!run.stages.empty(), "a run is recorded with its stages' verdicts");
  const RunSettings& s = run.settings;
  Json json;
  json["schema"] = "zeroproof/run/1";
  json["version"] = s.version;
  json["start_time"] = s.start_time;
  json["end_time"] = s.end_time;
  json["exit"] = static_cast<int>(run.exit);
  json["error"] = text_or_null(run.error);
  for (const StageResult& stage : run.stages) json["proved"][stage.stage] = stage.proved();
  json["injected"] = text_or_null(s.injected);
  json["args"] = s.args;
  json["config"] = config_json(s);
  json["machine"] = host_json(s);
  json["env"] = s.env;
  json["golden"] = text_or_null(s.golden);
  json["golden_written"] = run.golden_written ? Json(s.write_golden) : Json(nullptr);
  json["hash_case"] = text_or_null(s.hash_case);
  json["reference_hashes"] = Json::array();
  for (const HashSum& hash : run.reference_hash) json["reference_hashes"].push_back(hash_or_null(hash));
  json["reference_time_s"] = s.golden.empty() ? Json(run.reference_time_s) : Json(nullptr);
  line_ = line_of(json);
}

Record::Record(const RunResult& run, const StageResult& stage) {
  for (size_t i = 0; i < kClaims.size(); ++i) {
    require(stage.verdicts.at(i).claim == kClaims.at(i), "a stage is recorded with a verdict of every claim");
  }
  Json json;
  json["schema"] = "zeroproof/stage/1";
  json["version"] = run.settings.version;
  json["stage"] = stage.stage;
  add_verdicts(json, stage);
  json["golden"] = text_or_null(run.settings.golden);
  json["injected"] = text_or_null(run.settings.injected);
  add_numbers(json, stage, run.settings.nodes);
  json["config"] = config_json(run.settings);
  json["machine"] = host_json(run.settings);
  line_ = line_of(json);
}

void check_writable(const std::string& path, Existing existing, const std::string& option) {
  namespace fs = std::filesystem;
  const std::string where = option + " " + path + ": ";
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status)) {
    if (fs::is_directory(status)) fail(Exit::usage, where + "is a directory; name a file");
    if (existing == Existing::refuse && fs::is_regular_file(status)) {
      fail(Exit::usage, where + "exists and is left alone; name a new file, or add --overwrite");
    }
    if (access(path.c_str(), W_OK) != 0) fail(Exit::usage, where + std::strerror(errno));
    return;
  }
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) {
    fail(Exit::usage, where + "there is no folder " + folder.string() + "; make it first");
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(Exit::usage,
         where + "folder " + folder.string() + " cannot be written (" + std::strerror(errno) + ")");
  }
}

void write_file(const std::string& path, Existing existing, const std::string& text,
                const std::string& option) {
  check_writable(path, existing, option);
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) fail(Exit::usage, option + " " + path + ": cannot be written (" + std::strerror(errno) + ")");
}

void write_records(const std::string& path, Existing existing, const RunResult& run) {
  std::vector<std::string> lines{Record(run).line()};
  for (const StageResult& stage : run.stages) lines.push_back(Record(run, stage).line());
  write_lines(path, existing, lines);
}

void write_records(const std::string& path, Existing existing, const PlanResult& plan) {
  write_lines(path, existing, {plan_line(plan)});
}

void write_manifest(const std::string& path, const DumpManifest& manifest) {
  Json json;
  json["schema"] = "zeroproof/dump/1";
  json["version"] = manifest.settings.version;
  json["injected"] = text_or_null(manifest.settings.injected);
  json["args"] = manifest.settings.args;
  json["config"] = config_json(manifest.settings);
  json["stages"] = manifest.stages;
  json["positions"] = manifest.positions;
  for (const UnitSpec& unit : manifest.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      json["tensors"].push_back(
          Json{{"name", tensor.name}, {"shape", tensor.shape}, {"unit", unit.name}, {"frozen", unit.frozen}});
    }
  }
  json["arrays"] = Json::array();
  for (const DumpedArray& array : manifest.arrays) json["arrays"].push_back(array_json(array));
  std::ofstream file(path, std::ios::trunc);
  file << json.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
  file.close();
  if (!file) fail(Exit::usage, "--dump: " + path + " cannot be written (" + std::strerror(errno) + ")");
}

}  // namespace zp
