// A plan's record.
#include <nlohmann/json.hpp>

#include "harness/report/record.hpp"

namespace zp {
namespace {

using Json = nlohmann::ordered_json;

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
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void write_records(const std::string& path, Existing existing, const PlanResult& plan) {
  write_file(path, existing, plan_line(plan) + "\n");
}

}  // namespace zp
