// Reading --inject, and putting the decorators of one rank together.
#include "harness/suite/inject.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "harness/base/check.hpp"
#include "harness/suite/fault_decorators.hpp"

namespace zp {
namespace {

constexpr std::array kFaults{
    FaultRow{.name = "bitflip",
             .kind = FaultKind::bitflip,
             .does = "flips a bit of the largest element of a received gradient buffer",
             .exit = Exit::bits},
    FaultRow{.name = "flip-gradient",
             .kind = FaultKind::flip_gradient,
             .does = "flips a bit of the largest element of a rank's own gradient of one micro-batch",
             .exit = Exit::bits},
    FaultRow{.name = "skip-gather",
             .kind = FaultKind::skip_gather,
             .does = "leaves out one gather of parameters",
             .exit = Exit::bits},
    FaultRow{.name = "double-average",
             .kind = FaultKind::double_average,
             .does = "divides the summed gradient by M twice",
             .exit = Exit::bits},
    FaultRow{.name = "extra-message",
             .kind = FaultKind::extra_message,
             .does = "makes one all-gather twice",
             .exit = Exit::bytes},
    FaultRow{.name = "keep-gradients",
             .kind = FaultKind::keep_gradients,
             .does = "does not give whole unit gradients back after their reduction",
             .exit = Exit::memory},
    FaultRow{.name = "extra-compute",
             .kind = FaultKind::extra_compute,
             .does = "runs one kernel twice",
             .exit = Exit::work},
};

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  fail(Exit::usage, "--inject '" + text + "': " + why);
}

int number(const std::string& text, std::string_view key, std::string_view value, int most) {
  int parsed = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size() || parsed < 0 || parsed > most) {
    refuse(text, std::string(key) + " must be a number from 0 to " + std::to_string(most) + ", not '" +
                     std::string(value) + "'");
  }
  return parsed;
}

bool flips(const Injection& injection) {
  return injection.kind == FaultKind::bitflip || injection.kind == FaultKind::flip_gradient;
}

std::string keys_of(const Injection& injection) {
  return std::string("step, rank, stage, unit") + (flips(injection) ? ", bit, micro-batch" : "");
}

void set(Injection& injection, std::string_view key, std::string_view value, int world) {
  constexpr int kMany = 1'000'000;
  if (key == "step") {
    injection.step = number(injection.text, key, value, kMany);
  } else if (key == "rank") {
    injection.rank = number(injection.text, key, value, world - 1);
  } else if (key == "unit") {
    injection.unit = number(injection.text, key, value, kMany);
  } else if (key == "bit" && flips(injection)) {
    injection.bit = number(injection.text, key, value, 63);
  } else if (key == "micro-batch" && flips(injection)) {
    // What is received is a sum, or a part of one: a micro-batch is struck where it is computed.
    injection.kind = FaultKind::flip_gradient;
    injection.micro_batch = number(injection.text, key, value, kMany);
  } else if (key == "stage") {
    injection.stage = value;
  } else {
    refuse(injection.text,
           std::string("'").append(key) + "' is no key of it; keys are " + keys_of(injection));
  }
}

}  // namespace

std::span<const FaultRow> fault_table() { return kFaults; }

Injection parse_injection(const std::string& text, int world) {
  Injection injection;
  injection.text = text;
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const FaultRow* found = nullptr;
  std::string known;
  for (const FaultRow& row : kFaults) {
    if (row.name == kind) found = &row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  if (found == nullptr) refuse(text, std::string("'").append(kind) + "' is no fault; there are " + known);
  injection.kind = found->kind;

  std::string_view rest =
      colon == std::string::npos ? std::string_view() : std::string_view(text).substr(colon + 1);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) refuse(text, std::string("'").append(pair) + "' is not key=value");
    set(injection, pair.substr(0, equals), pair.substr(equals + 1), world);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  // Only one rank computes a micro-batch: one that is named says who is struck.
  const bool one_rank = flips(injection) || injection.kind == FaultKind::extra_compute;
  if (one_rank && injection.rank < 0 && injection.micro_batch < 0) injection.rank = world - 1;
  return injection;
}

void check_injection(const Injection& injection, const InjectionBounds& bounds) {
  if (injection.step >= bounds.steps) {
    refuse(injection.text, "step " + std::to_string(injection.step) + " is not run; the last one is " +
                               std::to_string(bounds.steps - 1));
  }
  if (injection.unit >= bounds.units) {
    refuse(injection.text, "unit " + std::to_string(injection.unit) + " does not exist; the last one is " +
                               std::to_string(bounds.units - 1));
  }
  if (injection.micro_batch >= bounds.micro_batches) {
    refuse(injection.text, "micro-batch " + std::to_string(injection.micro_batch) +
                               " does not exist; the last one is " +
                               std::to_string(bounds.micro_batches - 1));
  }
  const Type struck = injection.kind == FaultKind::bitflip ? bounds.wire : bounds.grads;
  if (injection.bit >= 8 * size_of(struck).n) {
    refuse(injection.text, "gradients have no bit " + std::to_string(injection.bit));
  }
  if (!injection.stage.empty() && std::ranges::find(bounds.stages, injection.stage) == bounds.stages.end()) {
    refuse(injection.text, "stage '" + injection.stage + "' is not run");
  }
}

FiredCounts no_strikes(size_t injections) {
  FiredCounts counts;
  for (size_t i = 0; i < injections; ++i) counts.push_back(std::make_shared<std::atomic<int>>(0));
  return counts;
}

Faults make_faults(const std::vector<Injection>& injections, std::string_view stage, int rank, Type wire,
                   const FiredCounts& fired) {
  require(fired.size() == injections.size(), "every injection has its count");
  Faults faults;
  auto now = std::make_shared<int>(-1);
  faults.begin_step = [now](int step) { *now = step; };
  for (size_t i = 0; i < injections.size(); ++i) {
    const Injection& injection = injections[i];
    if (!injection.stage.empty() && injection.stage != stage) continue;
    if (injection.rank >= 0 && injection.rank != rank) continue;
    add_fault(faults, {.injection = injection, .wire = wire, .now = now, .fired = fired[i]});
  }
  return faults;
}

}  // namespace zp
