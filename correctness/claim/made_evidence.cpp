// Evidence as it would be if every claim held.
#include "correctness/claim/made_evidence.hpp"

#include <bit>

#include "harness/base/random.hpp"
#include "harness/layout/uses.hpp"
#include "harness/theory/memory.hpp"
#include "harness/theory/traffic.hpp"
#include "harness/theory/work.hpp"

namespace zp {
namespace {

constexpr int kStep = 2;

std::vector<UnitSpec> made_units() {
  const auto tensor = [](const std::string& name, std::vector<int64_t> shape) {
    TensorSpec spec;
    spec.name = name;
    spec.shape = std::move(shape);
    return spec;
  };
  return {{.name = "first", .tensors = {tensor("first.weight", {7, 31}), tensor("first.bias", {31})}},
          {.name = "second", .tensors = {tensor("second.bias", {192}), tensor("second.weight", {13, 40})}},
          {.name = "third", .tensors = {tensor("third.bias", {3})}}};
}

// Neither the identity nor its own inverse from three ranks on.
Places turned(int world) {
  Places places;
  for (int place = 0; place < world; ++place) places.rank_at.push_back((place + 1) % world);
  return places;
}

// The state before the step has another salt than the one after it.
HashSum hash_of(HashKind kind, int64_t begin, int64_t end, uint64_t salt,
                HashFunction function = HashFunction::state) {
  HashSum sum;
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t index = (static_cast<uint64_t>(kind) << 48) + static_cast<uint64_t>(i);
    const auto bits = static_cast<uint32_t>(random_bits(salt, index));
    sum += function == HashFunction::state ? hash_element(index, bits) : replica_hash_element(index, bits);
  }
  return sum;
}

constexpr uint64_t kBefore = 1;
constexpr uint64_t kAfter = 2;

bool is_kept(HashKind kind, const Training& training) {
  if (kind == HashKind::master) return training.recipe.name != "fp32";
  return kind != HashKind::v || training.optimizer == Method::adamw;
}

void append_runs(std::vector<TensorHash>& hashes, const UnitLayout& unit, Range range, HashKind kind,
                 HashFunction function = HashFunction::state) {
  for (const TensorRun& run : runs(unit, range)) {
    const int64_t begin = (unit.logical_begin + run.in_unit.begin).n;
    const HashSum hash = hash_of(kind, begin, begin + run.in_unit.length().n, kAfter, function);
    hashes.push_back({.tensor = run.tensor->index, .kind = kind, .hash = hash});
  }
}

// Of ReferenceStep or ReplicaHashes.
template <class Hashes>
void add_tensors(Hashes& to, HashFunction function, const Layout& layout, const Training& training) {
  for (const UnitLayout& unit : layout.units()) {
    for (const TensorLayout& tensor : unit.tensors) {
      const int64_t begin = tensor.logical_begin.n;
      const int64_t end = begin + tensor.in_unit.length().n;
      const auto after = [&](HashKind kind) {
        return is_kept(kind, training) ? hash_of(kind, begin, end, kAfter, function) : HashSum{};
      };
      to.params_before.push_back(hash_of(HashKind::param, begin, end, kBefore, function));
      to.grads.push_back(hash_of(HashKind::grad, begin, end, kAfter, function));
      to.params.push_back(after(HashKind::param));
      to.master.push_back(after(HashKind::master));
      to.m.push_back(after(HashKind::m));
      to.v.push_back(after(HashKind::v));
    }
  }
}

ReferenceStep made_reference(const Layout& layout, const Training& training, HashFunction of_replicas) {
  ReferenceStep reference;
  add_tensors(reference, HashFunction::state, layout, training);
  if (of_replicas == HashFunction::replica)
    add_tensors(reference.replicas.emplace(), HashFunction::replica, layout, training);
  for (int number = 0; number < training.batching.micro_batches; ++number) {
    reference.micro_batch_grads.push_back(hash_of(HashKind::grad, number, number + 1, 3));
  }
  for (const auto* kind : {&reference.params, &reference.master, &reference.m, &reference.v}) {
    for (const HashSum& hash : *kind) reference.state += hash;
  }
  reference.loss_bits = std::bit_cast<uint64_t>(2.75);
  reference.norm_bits = std::bit_cast<uint64_t>(0.375);
  return reference;
}

}  // namespace

MadeRun::MadeRun(const theory::Stage& stage, int world, int micro_steps, Algorithm algorithm,
                 const Recipe& recipe, Method optimizer, HashFunction of_replicas)
    : layout(made_units(), turned(world)), of_replicas_(of_replicas) {
  facts.stage = stage;
  facts.layout = &layout;
  facts.training.recipe = recipe;
  facts.training.optimizer = optimizer;
  facts.training.batching = {world, world * micro_steps};
  facts.algorithm = algorithm;
  facts.constant = {{Category::activations, {1000}}, {Category::workspace, {300}}, {Category::data, {20}}};
  facts.work_per_micro_batch = {{"gemm", {12, {34567}}}, {"add", {2, {89}}}};
  reference = made_reference(layout, facts.training, of_replicas_);
  for (int rank = 0; rank < world; ++rank) ranks.push_back(evidence_of(rank));
}

StepEvidence MadeRun::evidence_of(int rank) const {
  const Training& training = facts.training;
  StepEvidence step;
  step.step = kStep;
  for (const auto& [purpose, peers] :
       theory::sent_per_step(facts.stage, layout, training, facts.algorithm, rank)) {
    for (const auto& [peer, sent] : peers) step.sent[purpose][peer] = {sent.messages, sent.bytes};
  }
  for (const auto& [purpose, operations] : theory::asked_per_step(facts.stage, layout, training)) {
    for (const auto& [operation, asked] : operations) {
      step.asked[purpose][operation] = {asked.calls, asked.whole};
    }
  }
  const auto collectives = theory::collectives_of_step(facts.stage, layout, training);
  int64_t sequence = kStep * static_cast<int64_t>(collectives.size());
  for (const theory::Collective& c : collectives) {
    step.log.push_back({sequence++, c.operation, c.purpose, c.type, c.count, c.tensor});
  }
  step.held = theory::held_per_step(facts.stage, layout, training, facts.algorithm, facts.constant);
  const auto in_uses = theory::held_in_uses(facts.stage, layout, training, facts.algorithm, facts.constant);
  for (const Visit& visit : fold_visits(training.batching.micro_steps())) {
    for (size_t at = 0; at < in_uses.size(); ++at) {
      const Use use = uses(layout)[at];
      step.held_in_use.push_back({.micro_step = visit.element,
                                  .unit = use.unit,
                                  .backward = use.pass == Pass::backward,
                                  .most = in_uses[at].most,
                                  .after = in_uses[at].after});
    }
  }
  for (const auto& [category, acquired] : theory::acquired_per_step(facts.stage, layout, training)) {
    step.acquired[category] = {acquired.calls, acquired.bytes};
  }
  step.device = DeviceEvidence{.grain = {512},
                               .used = {1024},
                               .used_most = {2048},
                               .taken = {1024},
                               .taken_most = {2048},
                               .reserved_most = {4096},
                               .pinned = {layout.world() == 1 ? 0 : 256}};
  theory::WorkLines micro_batch;
  for (const auto& [kernel, work] : facts.work_per_micro_batch) {
    micro_batch[kernel] = {work.calls, work.elements};
  }
  for (const auto& [kernel, work] :
       theory::work_per_step(facts.stage, layout, training, facts.algorithm, rank, micro_batch)) {
    step.work[kernel] = {work.calls, work.elements};
  }
  add_bits(step, place_of(rank));
  return step;
}

void MadeRun::add_bits(StepEvidence& step, int place) const {
  const Batching& batching = facts.training.batching;
  step.micro_batch_grads.resize(static_cast<size_t>(batching.micro_steps()));
  for (const Visit& visit : fold_visits(batching.micro_steps())) {
    for (const Use& use : uses(layout)) {
      const UnitLayout& unit = layout.unit(use.unit);
      const int64_t begin = unit.logical_begin.n;
      step.used.push_back(
          {.micro_step = visit.element,
           .unit = use.unit,
           .read = use.unit,
           .backward = use.pass == Pass::backward,
           .hash = hash_of(HashKind::param, begin, begin + unit.length.n, kBefore, of_replicas_)});
    }
    const int number = micro_batch_of(facts.stage.reduction, batching, place, visit.element);
    step.micro_batch_grads[static_cast<size_t>(visit.element)] =
        hash_of(HashKind::grad, number, number + 1, 3);
  }
  for (const UnitLayout& unit : layout.units()) {
    const Range whole{{0}, unit.padded};
    append_runs(step.grads, unit, unit.slice_of(place), HashKind::grad);
    if (facts.stage.all_reduces) append_runs(step.replica, unit, whole, HashKind::grad, of_replicas_);
    for (const HashKind kind : {HashKind::param, HashKind::master, HashKind::m, HashKind::v}) {
      if (!is_kept(kind, facts.training)) continue;
      append_runs(step.state, unit, unit.slice_of(place), kind);
      const theory::Held held = kind == HashKind::param ? facts.stage.params : facts.stage.optimizer;
      if (held == theory::Held::whole) append_runs(step.replica, unit, whole, kind, of_replicas_);
    }
  }
  step.loss_bits = reference.loss_bits;
  step.norm_bits = reference.norm_bits;
}

}  // namespace zp
