// The table of verdicts.
#include "harness/report/tables.hpp"

#include <fmt/format.h>

#include "harness/report/run_text.hpp"
#include "harness/report/statistics.hpp"
#include "harness/report/text_table.hpp"

namespace zp {

namespace {

constexpr size_t kMostHashDigits = 16;  // shown in the table where there is room
constexpr size_t kFewestHashDigits = 8;

enum class Wording { full, brief };

std::string word_for(Finding finding, Wording wording) {
  switch (finding) {
    case Finding::proved: return "ok";
    case Finding::refuted: return "REFUTED";
    case Finding::not_measured: return wording == Wording::full ? "not measured" : "n/m";
  }
  return "?";
}

std::vector<std::string> row_of(const StageResult& stage, Wording wording, size_t hash_digits) {
  std::vector<std::string> cells{stage.stage};
  for (const Verdict& verdict : stage.verdicts) cells.push_back(word_for(verdict.finding, wording));
  const double time_s = stage.refuted() ? 0.0 : median(stage.step_times_s);
  const double rate = stage.refuted() ? 0.0 : tokens_per_s(stage);
  const std::string missing = stage.refuted() ? "INVALID" : "-";
  cells.push_back(time_s > 0 ? short_number(time_s * 1e3, 1) : missing);
  cells.push_back(rate > 0 ? fmt::format("{:.0f}", rate) : missing);
  const bool ran = stage.steps_done > 0;
  cells.push_back(ran ? short_number(static_cast<double>(stage.peak.n) / (1 << 20), 2) : "-");
  const bool sent = ran && stage.sent_measured;
  cells.push_back(sent ? short_number(static_cast<double>(stage.sent_per_step.n) / 1e6, 3) : "-");
  cells.push_back(sent ? fmt::format("{:.2f}", stage.passes) : "-");
  // A refuted stage ended early, on a state that is not the run's end.
  cells.push_back(!ran ? "-" : stage.refuted() ? missing : hash_text(stage.hash).substr(0, hash_digits));
  return cells;
}

TextTable stage_table(const RunResult& run, Wording wording, size_t hash_digits) {
  TextTable table({"stage", "bits", "bytes", "memory", "work", "step ms", "tokens/s", "peak MiB", "sent MB",
                   "passes", "hash"});
  for (const StageResult& stage : run.stages) table.add(row_of(stage, wording, hash_digits));
  return table;
}

// The widest wording that fits.
std::string fitted_table(const RunResult& run) {
  for (const Wording wording : {Wording::full, Wording::brief}) {
    for (size_t digits = kMostHashDigits; digits >= kFewestHashDigits; --digits) {
      const TextTable table = stage_table(run, wording, digits);
      if (table.width() > kTextWidth) continue;
      return table.text() + (wording == Wording::brief ? "n/m: not measured\n" : "");
    }
  }
  return stage_table(run, Wording::brief, kFewestHashDigits).text();
}

std::string steps_text(int steps) { return fmt::format("{} step{}", steps, steps == 1 ? "" : "s"); }

// Where ranks are on several nodes: what leaves a node.
std::string crossing(const RunResult& run) {
  if (run.settings.nodes < 2) return "";
  std::vector<std::string> parts;
  for (const StageResult& stage : run.stages) {
    if (stage.steps_done > 0 && stage.sent_measured)
      parts.push_back(fmt::format("{} {:.3f}", stage.stage, static_cast<double>(stage.crossing.n) / 1e6));
  }
  if (parts.empty()) return "";
  return paragraph("", fmt::format("sent to other nodes, MB: {}", fmt::join(parts, ", ")));
}

}  // namespace

std::string verdict_table(const RunResult& run) {
  return header_text(run.settings, steps_text(run.settings.steps)) + fitted_table(run) +
         "step: median, slowest rank; peak, sent: largest over ranks, per step (MiB = 2^20 B, MB = 10^6 "
         "B)\n" +
         crossing(run) + hashes_text(run) + device_memory_text(run) + evidence_text(run) + "\n" +
         outcome_text(run);
}

}  // namespace zp
