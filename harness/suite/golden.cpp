// Golden files as JSON.
#include "harness/suite/golden.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/report/environment.hpp"
#include "harness/suite/job.hpp"

namespace zp {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

constexpr const char* kSchema = "zeroproof/golden/1";
constexpr int kMostSteps = 1'000'000;
constexpr int kMostMicroBatches = 65'536;

struct KindRow {
  const char* name;
  std::vector<HashSum> ReferenceStep::*hashes;
};
constexpr std::array kKinds{
    KindRow{"gradients", &ReferenceStep::grads},  KindRow{"parameters", &ReferenceStep::params},
    KindRow{"masters", &ReferenceStep::master},   KindRow{"first_moments", &ReferenceStep::m},
    KindRow{"second_moments", &ReferenceStep::v},
};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  fail(Exit::usage, "--golden " + path + ": " + why);
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string shown(const Json& json) {
  constexpr size_t kLongest = 80;
  const std::string text = dumped(json);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
}

// ---- Hashes and bits as text

bool is_hash(const Json& json) {
  constexpr size_t kDigits = 32;
  if (!json.is_string()) return false;
  const auto& text = json.get_ref<const std::string&>();
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

uint64_t from_hex(std::string_view digits) {
  uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

std::string text_of_bits(uint64_t bits) { return fmt::format("{:#018x}", bits); }

std::string digest_of(const std::string& text) {
  HashSum sum;
  for (size_t i = 0; i < text.size(); ++i) sum += hash_element(i, static_cast<unsigned char>(text[i]));
  return to_string(sum);
}

void forget_hashes(Json& json) {
  if (is_hash(json)) json = "";
  if (!json.is_structured()) return;
  for (Json& child : json) forget_hashes(child);
}

// Over everything but the hashes: a hash that differs refutes bits, whatever else differs is damage.
std::string checksum_of(Json json) {
  json.erase("checksum");
  forget_hashes(json);
  return digest_of(dumped(json));
}

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
  if (!object.is_object() || !object.contains(name)) refuse(path, "is damaged: it lacks the field " + name);
  return object.at(name);
}

int whole(const std::string& path, const Json& object, const std::string& name, int most) {
  const Json& json = field(path, object, name);
  const int64_t value = json.is_number_integer() ? json.get<int64_t>() : 0;
  if (value < 1 || value > most) {
    refuse(path, fmt::format("is damaged: {} is {}, and must be a whole number from 1 to {}", name,
                             shown(json), most));
  }
  return static_cast<int>(value);
}

const Json& list(const std::string& path, const Json& object, const std::string& name, size_t count) {
  const Json& json = field(path, object, name);
  if (!json.is_array() || json.size() != count) {
    refuse(path, fmt::format("is damaged: {} must be a list of {}", name, count));
  }
  return json;
}

Json parsed(const std::string& path, const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    refuse(path, "is no JSON, or was cut off; verify --write-golden writes such files");
  if (!json.is_object() || !json.contains("schema")) refuse(path, "is no golden file: it names no schema");
  if (json["schema"] != Json(kSchema)) {
    refuse(path, fmt::format("schema is {} in the file; this version reads \"{}\"", shown(json["schema"]),
                             kSchema));
  }
  return json;
}

// Every field of `mine` is in `theirs` and says the same; there are no others.
void agree(const std::string& path, const std::string& prefix, const Json& theirs, const Json& mine) {
  for (const auto& [key, value] : mine.items()) {
    const std::string name = prefix + key;
    const Json& other = field(path, theirs, key);
    if (value.is_object() && other.is_object()) {
      agree(path, name + ".", other, value);
    } else if (other != value) {
      refuse(path, fmt::format("{} is {} in the file and {} in this run", name, shown(other), shown(value)));
    }
  }
  for (const auto& [key, value] : theirs.items()) {
    if (!mine.contains(key)) {
      refuse(path,
             fmt::format("{}{} is {} in the file; this run has no such field", prefix, key, shown(value)));
    }
  }
}

HashSum hash_of(const std::string& path, const Json& json, const std::string& name) {
  if (!is_hash(json)) {
    refuse(path, fmt::format("is damaged: {} is {}, and must be 32 hexadecimal digits", name, shown(json)));
  }
  const std::string_view digits = json.get_ref<const std::string&>();
  return {.low = from_hex(digits.substr(16)), .high = from_hex(digits.substr(0, 16)), .finite = true};
}

uint64_t bits_of(const std::string& path, const Json& object, const std::string& name) {
  const Json& json = field(path, object, name);
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  const uint64_t bits = text.starts_with("0x") ? from_hex(std::string_view(text).substr(2)) : 0;
  if (text != text_of_bits(bits)) {
    refuse(path,
           fmt::format("is damaged: {} is {}, and must be 0x and 16 hexadecimal digits", name, shown(json)));
  }
  return bits;
}

std::vector<HashSum> tensors_of(const std::string& path, const Json& object, const std::string& name,
                                const Names& tensors) {
  const Json& json = field(path, object, name);
  std::vector<HashSum> hashes;
  hashes.reserve(tensors.size());
  for (const std::string& tensor : tensors) {
    hashes.push_back(hash_of(path, field(path, json, tensor), fmt::format("{} of {}", name, tensor)));
  }
  if (json.size() != tensors.size()) refuse(path, "is damaged: " + name + " names tensors of no such model");
  return hashes;
}

ReferenceStep step_of(const std::string& path, const Json& json, const Job& job, const Names& names) {
  ReferenceStep step;
  step.loss_bits = bits_of(path, json, "loss");
  step.norm_bits = bits_of(path, json, "norm");
  step.state = hash_of(path, field(path, json, "hash"), "hash");
  const auto count = static_cast<size_t>(job.training.batching.micro_batches);
  for (const Json& hash : list(path, json, "micro_batches", count))
    step.micro_batch_grads.push_back(hash_of(path, hash, "a micro-batch's gradient"));
  for (const KindRow& kind : kKinds) step.*kind.hashes = tensors_of(path, json, kind.name, names);
  return step;
}

// The job's steps, which may be fewer than the file's.
std::vector<ReferenceStep> steps_of(const GoldenFile& file, const Json& reference, const Job& job) {
  const Names names = tensor_names(job);
  const Json& all = list(file.path, reference, "steps", static_cast<size_t>(file.steps));
  std::vector<HashSum> before = tensors_of(file.path, reference, "initial_parameters", names);
  std::vector<ReferenceStep> steps;
  for (int i = 0; i < job.steps; ++i) {
    steps.push_back(step_of(file.path, all[static_cast<size_t>(i)], job, names));
    steps.back().params_before = std::exchange(before, steps.back().params);
  }
  return steps;
}

// No reference of the file adds gradients as this stage of the job does.
[[noreturn]] void refuse_layout(const std::string& path, const Json& theirs, const Job& job,
                                const StageRow& row) {
  const Json mine = layout_json(job);
  for (const char* name : {"ranks", "algorithm", "accumulate", "stages"}) {
    const Json& other = field(path, theirs, name);
    if (other == mine[name]) continue;
    refuse(path,
           fmt::format("{} is {} in the file and {} in this run, and the bits of stage {} belong to the "
                       "layout",
                       name, shown(other), shown(mine[name]), row.name()));
  }
  refuse(path, fmt::format("is damaged: it has no reference for stage {}", row.name()));
}

}  // namespace

GoldenFile open_golden(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) refuse(path, "there is no such file");
  if (!fs::is_regular_file(status)) refuse(path, "is no regular file");
  GoldenFile file;
  file.path = path;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  file.text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) refuse(path, errno != 0 ? std::strerror(errno) : "cannot be read");
  file.digest = digest_of(file.text);
  const Json json = parsed(path, file.text);
  file.steps = whole(path, json, "steps", kMostSteps);
  file.micro_batches = whole(path, field(path, json, "config"), "micro_batches", kMostMicroBatches);
  return file;
}

std::vector<ReferenceRun> golden_references(const GoldenFile& file, const Job& job) {
  const Json json = parsed(file.path, file.text);
  agree(file.path, "", field(file.path, json, "config"), config_json(job));
  if (field(file.path, json, "checksum") != checksum_of(json)) {
    refuse(file.path, "is damaged: its checksum, over everything but the hashes, does not hold");
  }
  if (job.steps > file.steps) {
    refuse(file.path, fmt::format("steps is {} in the file and {} in this run; it judges at most its own",
                                  file.steps, job.steps));
  }
  const Json& references = field(file.path, json, "references");
  std::vector<ReferenceRun> runs;
  for (const StageRow* row : job.rows) {
    const Arithmetic arithmetic = job.arithmetic_of(*row);
    if (std::ranges::find(runs, arithmetic, &ReferenceRun::arithmetic) != runs.end()) continue;
    const Json wanted = arithmetic_json(arithmetic);
    const Json* found = nullptr;
    for (const Json& reference : references) {
      if (found == nullptr && field(file.path, reference, "arithmetic") == wanted) found = &reference;
    }
    if (found == nullptr) refuse_layout(file.path, field(file.path, json, "layout"), job, *row);
    runs.push_back({.arithmetic = arithmetic, .steps = steps_of(file, *found, job)});
  }
  return runs;
}

void write_golden(const std::string& path, Existing existing, const Job& job,
                  const std::vector<ReferenceRun>& references) {
  const Names names = tensor_names(job);
  Json json;
  json["schema"] = kSchema;
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
  json["checksum"] = checksum_of(json);
  write_file(path, existing, json.dump(1) + "\n", "--write-golden");
}

}  // namespace zp
