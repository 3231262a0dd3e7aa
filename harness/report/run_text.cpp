// What every table of a run has in common.
#include "harness/report/run_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/report/text_table.hpp"

namespace zp {
namespace {

// Whom the bits were compared with, where it was no reference that ran here; and what others may compare
// with.
std::string golden(const RunResult& run) {
  const RunSettings& s = run.settings;
  if (!s.golden.empty()) return paragraph("bits by golden file ", s.golden);
  if (s.write_golden.empty()) return "";
  return paragraph("golden file ", s.write_golden + (run.golden_written ? " written" : " not written"));
}

}  // namespace

std::string hash_text(const HashSum& hash) { return hash.finite ? to_string(hash) : "not finite"; }

std::string short_number(double number, int decimals) {
  for (double bound = 1e4; number >= bound && decimals > 0; bound *= 10) --decimals;
  return fmt::format("{:.{}f}", number, decimals);
}

std::string header_text(const RunSettings& s, const std::string& steps) {
  std::string text =
      fmt::format("zeroproof {}: {}, {} parameters, {} rank{} ({}), {}", s.version, s.model,
                  with_commas(s.parameters), s.ranks, s.ranks == 1 ? "" : "s", s.transport, s.algorithm);
  if (s.nodes > 1) text += fmt::format(", {} nodes", s.nodes);
  if (s.tied) text += ", tied";
  if (s.unit_blocks > 1) text += fmt::format(", {} blocks a unit", s.unit_blocks);
  if (!s.frozen.empty()) text += fmt::format(", frozen: {}", fmt::join(s.frozen, " "));
  if (s.keep > 0) text += fmt::format(", zero3 keeps {} units", s.keep);
  text = paragraph("", text + ", " + s.math + " math");
  const std::string tokens =
      s.sequence > 0 ? fmt::format(" of {} x {} tokens", s.micro_batch_size, s.sequence) : "";
  const char* wire = s.wire == "i64" ? " (sent as i64)" : "";
  text += paragraph("", fmt::format("{} of {} micro-batches{}, {}{}, {}, seed {}, data {}", steps,
                                    s.micro_batches, tokens, s.recipe, wire, s.optimizer, s.seed, s.data));
  if (!s.device_description.empty()) text += paragraph("", s.device + ": " + s.device_description);
  if (!s.vendor.empty())
    text += paragraph("vendor: ", s.vendor + "; bits are claimed of this library and device only");
  if (!s.injected.empty()) text += paragraph("INJECTED ", s.injected);
  return text + "\n";
}

std::string hashes_text(const RunResult& run) {
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

std::string device_memory_text(const RunResult& run) {
  TextTable table({"stage", "pool in use", "buffers", "reserved", "pinned", "context", "carrier", "rest"});
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
               mib(device.reserved_most), mib(device.pinned), mib(device.context), mib(device.carrier),
               mib(device.rest)});
  }
  if (!any) return "";
  const std::string grains = grain.n > 0 ? fmt::format(" in grains of {} B", grain.n) : "";
  const std::string legend = fmt::format(
      "MiB of the device, the rank with the most: what its pool says, the ledger's buffers{}, what "
      "the pool reserved; of the host, pinned for messages; beside the pool, of the whole device: context, "
      "the carrier (NCCL), rest",
      grains);
  return fmt::format("\n{}{}", table.text(), paragraph("", legend));
}

std::string evidence_text(const RunResult& run) {
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

std::string outcome_text(const RunResult& run) {
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

}  // namespace zp
