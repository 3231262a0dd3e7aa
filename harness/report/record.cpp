// Records as JSON Lines.
#include "harness/report/record.hpp"

#include <cerrno>
#include <cstring>
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
  json["device_description"] = text_or_null(s.device_description);
  json["route"] = text_or_null(s.route);
  json["math"] = s.math;
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

Json nccl_json(const RunSettings& s) {
  if (s.nccl.empty()) return nullptr;
  return {{"version", s.nccl},
          {"log", text_or_null(s.nccl_log)},
          {"said", s.nccl_said.empty() ? Json(nullptr) : Json(s.nccl_said)}};
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
  json["pinned_bytes"] = device->pinned.n;
  json["context_bytes"] = bytes_or_null(device->context);
  json["carrier_bytes"] = bytes_or_null(device->carrier);
  json["rest_bytes"] = bytes_or_null(device->rest);
  return json;
}

// Memory and bytes, beside what was predicted.
void add_amounts(Json& json, const StageResult& stage, int nodes) {
  const bool ran = stage.steps_done > 0;
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
}

Json final_hash(const StageResult& stage) {
  return stage.steps_done > 0 && !stage.refuted() ? hash_or_null(stage.hash) : Json(nullptr);
}

void add_numbers(Json& json, const StageResult& stage, int nodes) {
  const double rate = tokens_per_s(stage);
  json["steps_done"] = stage.steps_done;
  json["step_times_s"] = stage.step_times_s;
  json["checked_step_times_s"] = stage.checked_step_times_s;
  json["tokens_per_step"] = stage.tokens_per_step;
  json["tokens_per_s"] = stage.refuted() || rate <= 0 ? Json(nullptr) : Json(rate);
  add_amounts(json, stage, nodes);
  json["losses"] = stage.losses;
  json["hash"] = final_hash(stage);
  json["products"] = stage.choices.empty() ? Json(nullptr) : Json(stage.choices);
}

// Rates and what they are made of. Samples are kept, whatever came of the claims.
void add_rates(Json& json, const StageResult& stage) {
  const Summary times = summary_of(times_of(stage.samples));
  const auto transfers = transfers_of(stage.samples);
  const bool valid = !stage.refuted() && times.least > 0;
  const auto per_s = [&](double time_s) {
    return valid ? Json(static_cast<double>(stage.tokens_per_step) / time_s) : Json(nullptr);
  };
  json["tokens_per_step"] = stage.tokens_per_step;
  json["tokens_per_s"] = per_s(times.median);
  json["tokens_per_s_least"] = per_s(times.most);
  json["tokens_per_s_most"] = per_s(times.least);
  json["step_time_s"] = valid ? Json(times.median) : Json(nullptr);
  json["exposed_s"] = valid && transfers ? Json(transfers->exposed_s) : Json(nullptr);
  json["overlap"] = valid && transfers ? Json(transfers->overlap) : Json(nullptr);
  json["samples"] = Json::array();
  for (const StepSample& sample : stage.samples) {
    const auto timed = [&](double s) { return sample.transfers_timed ? Json(s) : Json(nullptr); };
    json["samples"].push_back(Json{{"round", sample.round},
                                   {"step", sample.step},
                                   {"time_s", sample.time_s},
                                   {"exposed_s", timed(sample.exposed_s)},
                                   {"hidden_s", timed(sample.hidden_s)}});
  }
}

void write_lines(const std::string& path, Existing existing, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  write_file(path, existing, text);
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

// How the record of a stage begins.
Json stage_json(const char* schema, const RunResult& run, const StageResult& stage) {
  for (size_t i = 0; i < kClaims.size(); ++i) {
    require(stage.verdicts.at(i).claim == kClaims.at(i), "a stage is recorded with a verdict of every claim");
  }
  Json json;
  json["schema"] = schema;
  json["version"] = run.settings.version;
  json["stage"] = stage.stage;
  json["proved"] = stage.proved();
  json["verdicts"] = verdicts_json(stage);
  json["verdicts"]["bits"]["grade"] = text_or_null(run.settings.grade);
  json["injected"] = text_or_null(run.settings.injected);
  return json;
}

void add_where(Json& json, const RunResult& run) {
  json["config"] = config_json(run.settings);
  json["machine"] = host_json(run.settings);
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
  json["nccl"] = nccl_json(s);
  json["golden"] = text_or_null(s.golden);
  json["golden_written"] = run.golden_written ? Json(s.write_golden) : Json(nullptr);
  json["hash_case"] = text_or_null(s.hash_case);
  json["reference_hashes"] = Json::array();
  for (const HashSum& hash : run.reference_hash) json["reference_hashes"].push_back(hash_or_null(hash));
  json["reference_time_s"] = s.golden.empty() ? Json(run.reference_time_s) : Json(nullptr);
  line_ = line_of(json);
}

Record::Record(const RunResult& run, const StageResult& stage) {
  Json json = stage_json("zeroproof/stage/1", run, stage);
  json["golden"] = text_or_null(run.settings.golden);
  add_numbers(json, stage, run.settings.nodes);
  add_where(json, run);
  line_ = line_of(json);
}

Record::Record(const BenchResult& bench, const StageResult& stage) {
  Json json = stage_json("zeroproof/bench-stage/1", bench.run, stage);
  json["rounds"] = bench.rounds;
  json["warm_up_steps"] = bench.warm_up;
  json["timed_steps"] = bench.timed;
  add_rates(json, stage);
  add_amounts(json, stage, bench.run.settings.nodes);
  json["hash"] = final_hash(stage);
  json["products"] = stage.choices.empty() ? Json(nullptr) : Json(stage.choices);
  add_where(json, bench.run);
  line_ = line_of(json);
}

void write_records(const std::string& path, Existing existing, const RunResult& run) {
  std::vector<std::string> lines{Record(run).line()};
  for (const StageResult& stage : run.stages) lines.push_back(Record(run, stage).line());
  write_lines(path, existing, lines);
}

void write_records(const std::string& path, Existing existing, const BenchResult& bench) {
  std::vector<std::string> lines{Record(bench.run).line()};
  for (const StageResult& stage : bench.run.stages) lines.push_back(Record(bench, stage).line());
  write_lines(path, existing, lines);
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
