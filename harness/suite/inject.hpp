// Faults on request: decorators that make a rank misbehave in one step, so that a user sees every claim
// refute. Product code contains no fault switch; records of such a run say INJECTED.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/trainer/trainer.hpp"

namespace zp {

enum class FaultKind {
  bitflip,
  flip_gradient,
  skip_gather,
  double_average,
  extra_message,
  keep_gradients,
  extra_compute
};

// One --inject, "KIND:key=value,…". Keys: step (default 0), rank (default: every rank; for bitflip,
// flip-gradient and extra-compute the last, unless a micro-batch is named), stage (default: every stage),
// unit (default: any), bit (bitflip and flip-gradient; default 23 of fp32, 7 of bf16, 40 of int64),
// micro-batch (the same two; its number over the whole job; default: the first that the rank computes). A
// bitflip of a micro-batch is a flip-gradient.
struct Injection {
  FaultKind kind = FaultKind::bitflip;
  std::string text;   // as given
  std::string stage;  // "": every stage
  int step = 0;
  int rank = -1;         // -1: every rank
  int unit = -1;         // -1: any
  int bit = -1;          // -1: by type
  int micro_batch = -1;  // -1: any
};

// Throws (usage) for an unknown kind, key or value. `world` bounds rank.
Injection parse_injection(const std::string& text, int world);

// Throws (usage) for a step, stage, unit, bit or micro-batch that the job does not have.
struct InjectionBounds {
  int steps = 1, units = 1, micro_batches = 1;
  Type grads = Type::f32, wire = Type::f32;  // as stored, and between ranks
  std::vector<std::string_view> stages;
};
void check_injection(const Injection& injection, const InjectionBounds& bounds);

// How often each injection struck on this rank, in their order.
using FiredCounts = std::vector<std::shared_ptr<std::atomic<int>>>;
FiredCounts no_strikes(size_t injections);

// Faults of one rank in one stage; `fired` has a count for each injection.
Faults make_faults(const std::vector<Injection>& injections, std::string_view stage, int rank, Type wire,
                   const FiredCounts& fired);

// Kinds with one line of explanation and exit code each, for --help and README's test.
struct FaultRow {
  std::string_view name;
  FaultKind kind;
  std::string_view does;
  Exit exit;
};
std::span<const FaultRow> fault_table();

}  // namespace zp
