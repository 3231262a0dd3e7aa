// Golden files as JSON.
#include "harness/suite/golden.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/report/environment.hpp"
#include "harness/suite/job.hpp"
#include "harness/suite/number_text.hpp"

namespace zp {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

struct KindRow {
  const char* name;
  std::vector<HashSum> ReferenceStep::*hashes;
};
constexpr std::array kKinds{
    KindRow{"gradients", &ReferenceStep::grads},  KindRow{"parameters", &ReferenceStep::params},
    KindRow{"masters", &ReferenceStep::master},   KindRow{"first_moments", &ReferenceStep::m},
    KindRow{"second_moments", &ReferenceStep::v},
};

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string shown(const Json& json) {
  constexpr size_t kLongest = 80;
  const std::string text = dumped(json);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
}

// ---- Hashes and bits as text

uint64_t from_hex(std::string_view digits) {
  uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

std::string text_of_bits(uint64_t bits) { return fmt::format("{:#018x}", bits); }

// ---- What a job says of itself

Json optimizer_json(const Training& training) {
  Json json;
  json["name"] = name_of(training.optimizer);
  json["lr"] = training.lr;
  if (training.optimizer == Method::adamw) {
    json["beta1"] = training.beta1;
    json["beta2"] = training.beta2;
    json["epsilon"] = training.epsilon;
  } else {
    json["momentum"] = training.momentum;
  }
  json["weight_decay"] = training.weight_decay;
  return json;
}

// Fields that fix the arithmetic.
Json config_json(const Job& job) {
  const ModelConfig& model = job.model;
  const Training& training = job.training;
  Json json;
  json["contract"] = job.settings.contract;
  Json& shapes = json["model"];
  shapes["architecture"] = model.architecture == Architecture::gpt ? "gpt" : "synthetic";
  shapes["layers"] = model.layers;
  shapes["width"] = model.width;
  shapes["heads"] = model.heads;
  shapes["positions"] = model.positions;
  shapes["vocabulary"] = model.vocabulary;
  shapes["tied"] = model.tied;
  json["unit_blocks"] = model.unit_blocks;
  Names frozen = model.frozen;
  std::ranges::sort(frozen);
  json["frozen"] = frozen;
  json["seed"] = training.seed;
  json["data_hash"] = job.corpus ? Json(fmt::format("{:016x}", job.corpus->hash())) : Json(nullptr);
  json["micro_batches"] = training.batching.micro_batches;
  json["micro_batch_size"] = job.shape.batch;
  json["sequence"] = job.shape.sequence;
  json["recipe"] = training.recipe.name;
  json["wire"] = training.fixed_point() ? "i64" : name_of(training.recipe.grads);
  json["optimizer"] = optimizer_json(training);
  json["clip"] = training.clip;
  return json;
}

// Which layout wrote a file: compared only where the bits belong to it.
Json layout_json(const Job& job) {
  Json json;
  json["ranks"] = job.world;
  json["algorithm"] = name_of(job.algorithm);
  json["accumulate"] = name_of(job.training.batching.accumulate);
  json["stages"] = Json::array();
  for (const StageRow* row : job.rows) json["stages"].push_back(row->name());
  return json;
}

// Of a canonical arithmetic, what config_json does not say.
Json arithmetic_json(const Arithmetic& arithmetic) {
  Json json;
  json["reduction"] =
      arithmetic.reduction == Reduction::after_accumulation ? "after accumulation" : "every micro-step";
  json["ranks"] = arithmetic.batching.world;
  json["accumulate"] = name_of(arithmetic.batching.accumulate);
  json["algorithm"] = name_of(arithmetic.algorithm);
  return json;
}

Names tensor_names(const Job& job) {
  Names names;
  for (const UnitSpec& unit : model_units(job.model)) {
    for (const TensorSpec& tensor : unit.tensors) names.push_back(tensor.name);
  }
  return names;
}

// ---- Writing

Json hash_json(const HashSum& hash) {
  require(hash.finite, "a golden file is written of a state without NaN and Inf");
  return to_string(hash);
}

Json tensors_json(const Names& names, const std::vector<HashSum>& hashes) {
  Json json;
  for (size_t i = 0; i < names.size(); ++i) json[names[i]] = hash_json(hashes.at(i));
  return json;
}

Json step_json(const Names& names, const ReferenceStep& step) {
  Json json;
  json["loss"] = text_of_bits(step.loss_bits);
  json["norm"] = text_of_bits(step.norm_bits);
  json["hash"] = hash_json(step.state);
  for (const HashSum& hash : step.micro_batch_grads) json["micro_batches"].push_back(hash_json(hash));
  for (const KindRow& kind : kKinds) json[kind.name] = tensors_json(names, step.*kind.hashes);
  return json;
}

// ---- Reading

const Json& field(const std::string& path, const Json& object, const std::string& name) {
  if (!object.is_object() || !object.contains(name))
    refuse_golden(path, "is damaged: it lacks the field " + name);
  return object.at(name);
}

int whole(const std::string& path, const Json& object, const std::string& name, int most) {
  const Json& json = field(path, object, name);
  const int64_t value = json.is_number_integer() ? json.get<int64_t>() : 0;
  if (value < 1 || value > most) {
    refuse_golden(path, fmt::format("is damaged: {} is {}, and must be a whole number from 1 to {}", name,
                                    shown(json), most));
  }
  return static_cast<int>(value);
}

const Json& list(const std::string& path, const Json& object, const std::string& name, size_t count) {
  const Json& json = field(path, object, name);
  if (!json.is_array() || json.size() != count) {
    refuse_golden(path, fmt::format("is damaged: {} must be a list of {}", name, count));
  }
  return json;
}

Names keys_of(const Json& object) {
  Names keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// Every one of `names` is in `object`, and nothing else is.
void exactly(const std::string& path, const Json& object, const std::string& prefix, const Names& names) {
  for (const std::string& name : names) field(path, object, name);
  for (const std::string& key : keys_of(object)) {
    if (std::ranges::find(names, key) == names.end())
      refuse_golden(path,
                    fmt::format("has the field {}, which this version does not know", shown(prefix + key)));
  }
}

// Of a text whose seal holds. What is nested too deeply ends here, before anything that follows it down.
Json parsed(const std::string& path, const std::string& text) {
  constexpr int kDeepest = 6;  // the file, references, one of them, its steps, one of them, its tensors
  const auto within = [&](int depth, Json::parse_event_t event, const Json&) {
    using Event = Json::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) && depth >= kDeepest)
      refuse_golden(path, fmt::format("is damaged: it is nested more than {} deep", kDeepest));
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, within);
  } catch (const Json::exception&) {
    refuse_golden(path, "is damaged: it is no JSON, or a number in it is out of range");
  }
  if (json.dump(1) + "\n" != text)
    refuse_golden(path, "is damaged: a field is there twice, or a number in a form that is never written");
  exactly(path, json, "",
          {"schema", "version", "config", "layout", "steps", "references", "hashes_checksum", "checksum"});
  return json;
}

// Every field of `mine` is in `theirs` and says the same; there are no others.
void agree(const std::string& path, const std::string& prefix, const Json& theirs, const Json& mine) {
  for (const auto& [key, value] : mine.items()) {
    const std::string name = prefix + key;
    const Json& other = field(path, theirs, key);
    if (value.is_object()) {
      agree(path, name + ".", other, value);
    } else if (dumped(other) != dumped(value)) {
      refuse_golden(path,
                    fmt::format("{} is {} in the file and {} in this run", name, shown(other), shown(value)));
    }
  }
  exactly(path, theirs, prefix, keys_of(mine));
}

HashSum hash_of(const std::string& path, const Json& json, const std::string& name) {
  const std::string digits = json.is_string() ? json.get<std::string>() : "";
  if (!is_hash(digits)) {
    refuse_golden(path,
                  fmt::format("is damaged: {} is {}, and must be 32 hexadecimal digits", name, shown(json)));
  }
  const std::string_view both = digits;
  return {.low = from_hex(both.substr(16)), .high = from_hex(both.substr(0, 16)), .finite = true};
}

uint64_t bits_of(const std::string& path, const Json& object, const std::string& name) {
  const Json& json = field(path, object, name);
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  const uint64_t bits = text.starts_with("0x") ? from_hex(std::string_view(text).substr(2)) : 0;
  if (text != text_of_bits(bits)) {
    refuse_golden(path, fmt::format("is damaged: {} is {}, and must be 0x and 16 hexadecimal digits", name,
                                    shown(json)));
  }
  return bits;
}

std::vector<HashSum> tensors_of(const std::string& path, const Json& object, const std::string& name,
                                const Names& tensors) {
  const Json& json = field(path, object, name);
  exactly(path, json, name + ".", tensors);
  std::vector<HashSum> hashes;
  hashes.reserve(tensors.size());
  for (const std::string& tensor : tensors)
    hashes.push_back(hash_of(path, json.at(tensor), fmt::format("{} of {}", name, tensor)));
  return hashes;
}

ReferenceStep step_of(const std::string& path, const Json& json, const Job& job, const Names& tensors) {
  Names names{"loss", "norm", "hash", "micro_batches"};
  for (const KindRow& kind : kKinds) names.emplace_back(kind.name);
  exactly(path, json, "steps.", names);
  ReferenceStep step;
  step.loss_bits = bits_of(path, json, "loss");
  step.norm_bits = bits_of(path, json, "norm");
  step.state = hash_of(path, json.at("hash"), "hash");
  const auto count = static_cast<size_t>(job.training.batching.micro_batches);
  for (const Json& hash : list(path, json, "micro_batches", count))
    step.micro_batch_grads.push_back(hash_of(path, hash, "a micro-batch's gradient"));
  for (const KindRow& kind : kKinds) step.*kind.hashes = tensors_of(path, json, kind.name, tensors);
  return step;
}

// All steps are read, and the job's are kept, which may be fewer.
std::vector<ReferenceStep> steps_of(const GoldenFile& file, const Json& reference, const Job& job) {
  const Names tensors = tensor_names(job);
  std::vector<HashSum> before = tensors_of(file.path, reference, "initial_parameters", tensors);
  std::vector<ReferenceStep> steps;
  for (const Json& step : list(file.path, reference, "steps", static_cast<size_t>(file.steps))) {
    steps.push_back(step_of(file.path, step, job, tensors));
    steps.back().params_before = std::exchange(before, steps.back().params);
  }
  steps.resize(static_cast<size_t>(job.steps));
  return steps;
}

struct FileReference {
  Json arithmetic;
  std::vector<ReferenceStep> steps;
};

// All that the file has, whether the job needs them or not.
std::vector<FileReference> references_of(const GoldenFile& file, const Json& json, const Job& job) {
  exactly(file.path, json.at("layout"), "layout.", keys_of(layout_json(job)));
  const Json& all = json.at("references");
  if (!all.is_array() || all.empty()) refuse_golden(file.path, "is damaged: references must be a list");
  std::vector<FileReference> references;
  for (const Json& reference : all) {
    exactly(file.path, reference, "references.", {"arithmetic", "initial_parameters", "steps"});
    const Json& arithmetic = reference.at("arithmetic");
    exactly(file.path, arithmetic, "arithmetic.", keys_of(arithmetic_json({})));
    references.push_back({.arithmetic = arithmetic, .steps = steps_of(file, reference, job)});
  }
  return references;
}

// No reference of the file adds gradients as this stage of the job does.
[[noreturn]] void refuse_layout(const std::string& path, const Json& theirs, const Job& job,
                                const StageRow& row) {
  const Json mine = layout_json(job);
  for (const char* name : {"ranks", "algorithm", "accumulate", "stages"}) {
    const Json& other = theirs.at(name);
    if (other == mine[name]) continue;
    refuse_golden(
        path, fmt::format("{} is {} in the file and {} in this run, and the bits of stage {} belong to the "
                          "layout",
                          name, shown(other), shown(mine[name]), row.name()));
  }
  refuse_golden(path, fmt::format("is damaged: it has no reference for stage {}", row.name()));
}

}  // namespace

GoldenFile open_golden(const std::string& path) {
  GoldenFile file;
  file.path = path;
  file.text = read_golden_text(path);
  file.digest = digest_of(file.text);
  file.hashes = check_seal(path, file.text);
  const Json json = parsed(path, file.text);
  file.steps = whole(path, json, "steps", kMostSteps);
  file.micro_batches = whole(path, field(path, json, "config"), "micro_batches", kMostMicroBatches);
  return file;
}

std::vector<ReferenceRun> golden_references(const GoldenFile& file, const Job& job) {
  const Json json = parsed(file.path, file.text);
  agree(file.path, "", json.at("config"), config_json(job));
  if (job.steps > file.steps) {
    refuse_golden(file.path,
                  fmt::format("steps is {} in the file and {} in this run; it judges at most its own",
                              file.steps, job.steps));
  }
  const std::vector<FileReference> references = references_of(file, json, job);
  std::vector<ReferenceRun> runs;
  for (const StageRow* row : job.rows) {
    const Arithmetic arithmetic = job.arithmetic_of(*row);
    if (std::ranges::find(runs, arithmetic, &ReferenceRun::arithmetic) != runs.end()) continue;
    const Json wanted = arithmetic_json(arithmetic);
    const auto found = std::ranges::find_if(
        references, [&](const FileReference& reference) { return reference.arithmetic == wanted; });
    if (found == references.end()) refuse_layout(file.path, json.at("layout"), job, *row);
    runs.push_back({.arithmetic = arithmetic, .steps = found->steps});
  }
  return runs;
}

void write_golden(const std::string& path, Existing existing, const Job& job,
                  const std::vector<ReferenceRun>& references) {
  const Names names = tensor_names(job);
  Json json;
  json["schema"] = std::string(kGoldenSchema);
  json["version"] = std::string(version());
  json["config"] = config_json(job);
  json["layout"] = layout_json(job);
  json["steps"] = job.steps;
  for (const ReferenceRun& run : references) {
    Json& reference = json["references"].emplace_back();
    reference["arithmetic"] = arithmetic_json(run.arithmetic);
    reference["initial_parameters"] = tensors_json(names, run.steps.front().params_before);
    for (const ReferenceStep& step : run.steps) reference["steps"].push_back(step_json(names, step));
  }
  write_file(path, existing, sealed(json.dump(1)), "--write-golden");
}

}  // namespace zp
