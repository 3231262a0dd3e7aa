// The table of verdicts.
#include "harness/report/tables.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/report/statistics.hpp"
#include "harness/report/text_table.hpp"

namespace zp {

namespace {

constexpr size_t kHashDigits = 16;  // shown in the table where there is room
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

std::string hash_text(const HashSum& hash) { return hash.finite ? to_string(hash) : "not finite"; }

// With `decimals`, fewer where the number is long already.
std::string short_number(double number, int decimals) {
  for (double bound = 1e4; number >= bound && decimals > 0; bound *= 10) --decimals;
  return fmt::format("{:.{}f}", number, decimals);
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
    for (size_t digits = kHashDigits; digits >= kFewestHashDigits; --digits) {
      const TextTable table = stage_table(run, wording, digits);
      if (table.width() > kTextWidth) continue;
      return table.text() + (wording == Wording::brief ? "n/m: not measured\n" : "");
    }
  }
  return stage_table(run, Wording::brief, kFewestHashDigits).text();
}

std::string header(const RunSettings& s) {
  std::string text =
      fmt::format("zeroproof {}: {}, {} parameters, {} rank{} ({}), {}", s.version, s.model,
                  with_commas(s.parameters), s.ranks, s.ranks == 1 ? "" : "s", s.transport, s.algorithm);
  if (s.nodes > 1) text += fmt::format(", {} nodes", s.nodes);
  if (s.tied) text += ", tied";
  if (s.unit_blocks > 1) text += fmt::format(", {} blocks a unit", s.unit_blocks);
  if (!s.frozen.empty()) text += fmt::format(", frozen: {}", fmt::join(s.frozen, " "));
  if (s.keep > 0) text += fmt::format(", zero3 keeps {} units", s.keep);
  text = paragraph("", text);
  const std::string tokens =
      s.sequence > 0 ? fmt::format(" of {} x {} tokens", s.micro_batch_size, s.sequence) : "";
  const char* wire = s.wire == "i64" ? " (sent as i64)" : "";
  text += paragraph("", fmt::format("{} step{} of {} micro-batches{}, {}{}, {}, seed {}, data {}", s.steps,
                                    s.steps == 1 ? "" : "s", s.micro_batches, tokens, s.recipe, wire,
                                    s.optimizer, s.seed, s.data));
  if (!s.device_description.empty()) text += paragraph("", s.device + ": " + s.device_description);
  if (!s.injected.empty()) text += paragraph("INJECTED ", s.injected);
  return text + "\n";
}

// Where ranks have a device's memory: what the device says of it, beside what the ledger's buffers take.
std::string device_memory(const RunResult& run) {
  TextTable table({"stage", "pool in use", "buffers", "reserved", "context", "library", "rest"});
  const auto mib = [](const std::optional<Bytes>& bytes) {
    return bytes ? short_number(static_cast<double>(bytes->n) / (1 << 20), 2) : "not measured";
  };
  Bytes grain;
  bool any = false;
  for (const StageResult& stage : run.stages) {
    if (!stage.device) continue;
    const DeviceEvidence& device = *stage.device;
    any = true;
    grain = device.grain;
    table.add({stage.stage, mib(device.used_most), grain.n > 0 ? mib(device.taken_most) : "not measured",
               mib(device.reserved_most), mib(device.context), mib(device.library), mib(device.rest)});
  }
  if (!any) return "";
  const std::string grains = grain.n > 0 ? fmt::format(" in grains of {} B", grain.n) : "";
  const std::string legend = fmt::format(
      "MiB of the device, the rank with the most: what its pool says, the ledger's buffers{}, what "
      "the pool reserved; beside the pool, of the whole device: context, transport's library, rest",
      grains);
  return fmt::format("\n{}{}", table.text(), paragraph("", legend));
}

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

// Whom the bits were compared with, where it was no reference that ran here; and what others may compare
// with.
std::string golden(const RunResult& run) {
  const RunSettings& s = run.settings;
  if (!s.golden.empty()) return paragraph("bits by golden file ", s.golden);
  if (s.write_golden.empty()) return "";
  return paragraph("golden file ", s.write_golden + (run.golden_written ? " written" : " not written"));
}

// The hashes of the stages that were not refuted, and of the references: one line for every distinct hash,
// with who ended on it.
std::string hashes(const RunResult& run) {
  std::vector<std::pair<std::string, std::vector<std::string>>> owners;
  const auto add = [&](const HashSum& hash, const std::string& owner) {
    const std::string text = hash_text(hash);
    const auto found = std::ranges::find_if(owners, [&](const auto& line) { return line.first == text; });
    if (found != owners.end()) {
      found->second.push_back(owner);
    } else {
      owners.push_back({text, {owner}});
    }
  };
  for (const StageResult& stage : run.stages) {
    if (stage.steps_done > 0 && !stage.refuted()) add(stage.hash, stage.stage);
  }
  for (const HashSum& hash : run.reference_hash)
    add(hash, run.settings.golden.empty() ? "reference" : "golden file");
  std::string text;
  for (const auto& [hash, names] : owners) {
    const bool all = owners.size() == 1 && names.size() > 1;
    text += paragraph("hash ", fmt::format("{}  {}", hash,
                                           all ? "one for all" : fmt::format("{}", fmt::join(names, ", "))));
  }
  if (!run.settings.hash_case.empty()) text += paragraph("     ", run.settings.hash_case);
  return text + golden(run);
}

std::string evidence(const RunResult& run) {
  std::string text;
  for (const StageResult& stage : run.stages) {
    for (const Verdict& verdict : stage.verdicts) {
      if (verdict.finding != Finding::refuted) continue;
      text += fmt::format("\n{}: {} REFUTED\n", stage.stage, name_of(verdict.claim));
      for (const std::string& line : verdict.evidence) text += paragraph("  ", line);
    }
  }
  return text;
}

std::string outcome(const RunResult& run) {
  size_t proved = 0, refuted = 0, not_measured = 0;
  for (const StageResult& stage : run.stages) {
    for (const Verdict& verdict : stage.verdicts) {
      proved += verdict.finding == Finding::proved ? 1 : 0;
      refuted += verdict.finding == Finding::refuted ? 1 : 0;
      not_measured += verdict.finding == Finding::not_measured ? 1 : 0;
    }
  }
  std::string text = fmt::format("{} claims proved, {} refuted", proved, refuted);
  if (not_measured > 0) text += fmt::format(", {} not measured", not_measured);
  if (!run.settings.injected.empty()) text += "; a fault was INJECTED";
  if (!run.error.empty()) text += "; the run ended with an error";
  return paragraph("", fmt::format("{}; exit {}", text, static_cast<int>(run.exit)));
}

}  // namespace

std::string verdict_table(const RunResult& run) {
  return header(run.settings) + fitted_table(run) +
         "step: median, slowest rank; peak, sent: largest over ranks, per step (MiB = 2^20 B, MB = 10^6 "
         "B)\n" +
         crossing(run) + hashes(run) + device_memory(run) + evidence(run) + "\n" + outcome(run);
}

}  // namespace zp
