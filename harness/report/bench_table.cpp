// The table of rates.
#include <fmt/format.h>

#include "harness/report/run_text.hpp"
#include "harness/report/statistics.hpp"
#include "harness/report/tables.hpp"
#include "harness/report/text_table.hpp"

namespace zp {
namespace {

constexpr const char* kNotMeasured = "n/m";

// The first claim that was refuted, else the first that was not measured.
std::string claims_of(const StageResult& stage) {
  for (const Finding finding : {Finding::refuted, Finding::not_measured}) {
    for (const Verdict& verdict : stage.verdicts) {
      if (verdict.finding != finding) continue;
      return std::string(name_of(verdict.claim)) +
             (finding == Finding::refuted ? " REFUTED" : std::string(" ") + kNotMeasured);
    }
  }
  return "proved";
}

std::vector<std::string> row_of(const StageResult& stage) {
  std::vector<std::string> cells{stage.stage, claims_of(stage)};
  const Summary times = summary_of(times_of(stage.samples));
  const auto transfers = transfers_of(stage.samples);
  const std::string missing = stage.refuted() ? "INVALID" : "-";
  const bool valid = !stage.refuted() && times.least > 0;
  for (const double time_s : {times.median, times.most, times.least}) {
    cells.push_back(valid ? fmt::format("{:.0f}", static_cast<double>(stage.tokens_per_step) / time_s)
                          : missing);
  }
  cells.push_back(valid ? short_number(times.median * 1e3, 1) : missing);
  const bool ran = stage.steps_done > 0;
  cells.push_back(ran ? short_number(static_cast<double>(stage.peak.n) / (1 << 20), 2) : "-");
  cells.push_back(!ran                  ? "-"
                  : stage.sent_measured ? short_number(static_cast<double>(stage.sent_per_step.n) / 1e6, 3)
                                        : kNotMeasured);
  const auto of_transfers = [&](double number, int decimals) {
    return !valid ? missing : transfers ? short_number(number, decimals) : kNotMeasured;
  };
  cells.push_back(of_transfers(transfers ? transfers->exposed_s * 1e3 : 0, 1));
  cells.push_back(of_transfers(transfers ? transfers->overlap : 0, 2));
  return cells;
}

std::string steps_text(const BenchResult& bench) {
  const auto many = [](int count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return fmt::format("{}, each of {} to warm up and {} timed; steps", many(bench.rounds, "round"),
                     many(bench.warm_up, "step"), bench.timed);
}

}  // namespace

std::string bench_table(const BenchResult& bench) {
  const RunResult& run = bench.run;
  TextTable table({"stage", "claims", "tokens/s", "least", "most", "step ms", "peak MiB", "sent MB",
                   "exposed ms", "overlap"});
  for (const StageResult& stage : run.stages) table.add(row_of(stage));
  std::string text = header_text(run.settings, steps_text(bench)) + table.text();
  text += paragraph(
      "",
      fmt::format(
          "tokens/s: of all ranks, median, least and most of {} timed steps a stage, slowest rank; no hash "
          "or verdict is made within them. peak, sent: largest over ranks, per step (MiB = 2^20 B, MB = "
          "10^6 B). exposed: a rank's time in its transport, in a step, mean over ranks; overlap: of the "
          "time in which a collective was under way or the rank in its transport, the part in which it "
          "computed. n/m: not measured",
          bench.rounds * bench.timed));
  return text + hashes_text(run) + device_memory_text(run) + evidence_text(run) + "\n" + outcome_text(run);
}

}  // namespace zp
