// Results of a run, made up: what tables and records are tested on.
#pragma once

#include <sstream>
#include <string>

#include "harness/report/bench.hpp"

namespace zp {

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline StageResult sample_stage(const std::string& name) {
  StageResult stage;
  stage.stage = name;
  for (const Claim claim : kClaims) {
    stage.verdicts.at(static_cast<size_t>(claim)) = {
        .claim = claim, .finding = Finding::proved, .evidence = {}};
  }
  stage.hash = {.low = 0x0123456789abcdefU, .high = 0xfedcba9876543210U, .finite = true};
  stage.steps_done = 3;
  stage.step_times_s = {0.5, 0.25, 0.125};
  stage.checked_step_times_s = {1.0, 0.5, 0.25};
  stage.tokens_per_step = 2048;
  stage.peak = {3 << 20};
  stage.sent_per_step = {1'234'567};
  stage.passes = 2;
  stage.held_at_peak = {{Category::params, {100}}, {Category::gathered, {7}}};
  stage.predicted_at_peak = {{Category::params, {100}}, {Category::bucket, {9}}};
  stage.sent_by_purpose = {{Purpose::gather_params, {11}}};
  stage.predicted_by_purpose = {{Purpose::gather_params, {11}}};
  stage.losses = {5.5, 5.25, 5.125};
  for (int i = 0; i < 4; ++i) {
    stage.samples.push_back({.round = i / 2,
                             .step = 2 + i % 2,
                             .time_s = 0.5 / (1 << i),
                             .transfers_timed = true,
                             .exposed_s = 0.25 / (1 << i),
                             .hidden_s = 0.75 / (1 << i)});
  }
  return stage;
}

inline RunResult sample_run() {
  RunResult run;
  RunSettings& s = run.settings;
  s.version = "1.2.3";
  s.model = "small";
  s.data = "synthetic";
  s.recipe = "bf16-fp32grad";
  s.wire = "fp32";
  s.transport = "mpi";
  s.algorithm = "halving";
  s.parameters = 10'942'464;
  s.ranks = 4;
  s.steps = 3;
  s.micro_batches = 8;
  s.micro_batch_size = 1;
  s.sequence = 256;
  s.hash_case = "this hash holds for every stage and for 1, 2, 4 and 8 ranks";
  s.args = {"verify", "--model", "small"};
  run.reference_hash = {sample_stage("ddp").hash};
  run.reference_time_s = 1.5;
  for (const char* name : {"ddp", "zero1", "zero1-allreduce", "zero2", "zero3", "zero3-keep"}) {
    run.stages.push_back(sample_stage(name));
  }
  return run;
}

inline DeviceEvidence sample_device() {
  return {.grain = {512},
          .used = {2 << 20},
          .used_most = {5 << 20},
          .taken = {2 << 20},
          .taken_most = {5 << 20},
          .reserved_most = {32 << 20},
          .pinned = {3 << 18},
          .context = Bytes{300 << 20},
          .carrier = std::nullopt,
          .rest = Bytes{7 << 19}};
}

inline BenchResult sample_bench() { return {.run = sample_run(), .rounds = 2, .warm_up = 2, .timed = 2}; }

inline void refute(StageResult& stage, Claim claim, const std::string& evidence) {
  Verdict& verdict = stage.verdicts.at(static_cast<size_t>(claim));
  verdict.finding = Finding::refuted;
  verdict.evidence = {evidence};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The first line that begins with `start` and a space.
inline std::string line_starting(const std::string& text, const std::string& start) {
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(start + " ")) return line;
  }
  return "";
}

}  // namespace zp
