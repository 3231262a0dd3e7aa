// The tables of `zeroproof plan`: ledger and traffic of every stage, from theory.
#include <fmt/format.h>

#include <functional>

#include "harness/report/tables.hpp"
#include "harness/report/text_table.hpp"

namespace zp {

namespace {

// Whole bytes as an integer with commas; a fraction (Ψ not a multiple of N) with three digits.
std::string exact_bytes(double bytes) {
  const auto whole = static_cast<int64_t>(bytes);
  return static_cast<double>(whole) == bytes ? with_commas(whole) : fmt::format("{:.3f}", bytes);
}

// The table with the most digits that fits.
std::string fitted(const std::function<TextTable(int decimals)>& make) {
  for (int decimals = 9; decimals > 0; --decimals) {
    const TextTable table = make(decimals);
    if (table.width() <= kTextWidth) return table.text();
  }
  return make(0).text();
}

std::string held_table(const PlanResult& plan) {
  return fitted([&](int decimals) {
    TextTable table({"held, GB", "params", "grads", "optimizer", "states", "+ in step", "states, bytes"});
    for (const theory::IdealRow& row : plan.rows) {
      table.add({std::string(row.stage), in_gb(row.params, decimals), in_gb(row.grads, decimals),
                 in_gb(row.optimizer, decimals), in_gb(row.held(), decimals),
                 row.gathered > 0 ? in_gb(row.gathered, decimals) : "-", exact_bytes(row.held())});
    }
    return table;
  });
}

std::string sent_table(const PlanResult& plan) {
  return fitted([&](int decimals) {
    TextTable table({"sent, GB", "passes", "params", "grads", "total", "total, bytes"});
    for (const theory::IdealRow& row : plan.rows) {
      table.add({std::string(row.stage), fmt::format("{:g}", row.passes), in_gb(row.sent_params, decimals),
                 in_gb(row.sent_grads, decimals), in_gb(row.sent(), decimals), exact_bytes(row.sent())});
    }
    return table;
  });
}

std::string unit_table(const PlanExact& exact) {
  TextTable table({"unit", "parameters", "slice", "padded", "padding"});
  for (const PlanUnit& unit : exact.units) {
    table.add({unit.name, with_commas(unit.parameters.n), with_commas(unit.slice.n),
               with_commas(unit.padded.n), with_commas(unit.padded.n - unit.parameters.n)});
  }
  table.add({"all", with_commas(exact.parameters.n), "", with_commas(exact.padded.n),
             with_commas(exact.padded.n - exact.parameters.n)});
  return table.text();
}

// A table with a column for every stage.
class ByStage {
 public:
  ByStage(const std::string& title, const PlanExact& exact) : exact_(exact), table_(header(title, exact)) {}
  void add(const std::string& name, const std::function<std::string(const theory::ExactRow&)>& cell) {
    std::vector<std::string> cells{name};
    for (const theory::ExactRow& row : exact_.rows) cells.push_back(cell(row));
    table_.add(std::move(cells));
  }
  std::string text() const { return table_.text(); }

 private:
  static std::vector<std::string> header(const std::string& title, const PlanExact& exact) {
    std::vector<std::string> cells{title};
    for (const theory::ExactRow& row : exact.rows) cells.emplace_back(row.stage);
    return cells;
  }
  const PlanExact& exact_;
  TextTable table_;
};

std::string bytes_or_dash(const theory::HeldLines& lines, Category category) {
  const auto line = lines.find(category);
  return line == lines.end() ? "-" : fmt::format("{}", line->second.n);
}

bool held_by_any(const PlanExact& exact, Category category) {
  for (const theory::ExactRow& row : exact.rows) {
    if (row.states.contains(category) || row.transient.contains(category)) return true;
  }
  return false;
}

std::string exact_held(const PlanExact& exact) {
  ByStage table("held, bytes", exact);
  for (const Category category : kCategories) {
    if (!held_by_any(exact, category)) continue;
    table.add(std::string(name_of(category)), [&](const theory::ExactRow& row) {
      return bytes_or_dash(row.states.contains(category) ? row.states : row.transient, category);
    });
  }
  table.add("states",
            [](const theory::ExactRow& row) { return fmt::format("{}", theory::total(row.states).n); });
  table.add("peak",
            [](const theory::ExactRow& row) { return fmt::format("{}", theory::total(row.at_peak).n); });
  return table.text();
}

theory::Sent sent_for(const theory::ExactRow& row, Purpose purpose) {
  theory::Sent sum;
  const auto line = row.sent.find(purpose);
  if (line == row.sent.end()) return sum;
  for (const auto& [peer, sent] : line->second) {
    sum.messages += sent.messages;
    sum.bytes += sent.bytes;
  }
  return sum;
}

theory::Sent sent_in_all(const theory::ExactRow& row) {
  theory::Sent sum;
  for (const Purpose purpose : kPurposes) {
    const theory::Sent part = sent_for(row, purpose);
    sum.messages += part.messages;
    sum.bytes += part.bytes;
  }
  return sum;
}

std::string exact_sent(const PlanExact& exact) {
  ByStage table("sent, bytes", exact);
  for (const Purpose purpose : kPurposes) {
    table.add(std::string(name_of(purpose)),
              [&](const theory::ExactRow& row) { return fmt::format("{}", sent_for(row, purpose).bytes.n); });
  }
  table.add("total", [](const theory::ExactRow& row) { return fmt::format("{}", sent_in_all(row).bytes.n); });
  table.add("messages",
            [](const theory::ExactRow& row) { return fmt::format("{}", sent_in_all(row).messages); });
  table.add("passes", [](const theory::ExactRow& row) { return fmt::format("{:.3g}", row.passes); });
  return table.text();
}

std::string exact_part(const PlanExact& exact) {
  const std::string tokens =
      exact.sequence > 0 ? fmt::format(" of {} x {} tokens", exact.micro_batch_size, exact.sequence) : "";
  std::string text =
      paragraph("", fmt::format("{} exactly: slices padded to 64 elements, {} micro-batches{} a step, added "
                                "{}, {}, {} kernel thread{}",
                                exact.model, exact.micro_batches, tokens,
                                exact.accumulate == Accumulate::fold ? "by the fold" : "in turn",
                                name_of(exact.algorithm), exact.threads, exact.threads == 1 ? "" : "s"));
  text.append(unit_table(exact)).append("\n").append(exact_held(exact));
  text += "each category at its own largest within the step; peak: the largest total\n\n";
  return text + exact_sent(exact) + "by the rank at place 0, per step\n";
}

}  // namespace

std::string plan_table(const PlanResult& plan) {
  const theory::PlanNumbers& n = plan.numbers;
  std::string text =
      paragraph("", fmt::format("plan: {} parameters, {} rank{}, recipe {} with {} ({} + {} + {} bytes a "
                                "parameter){}, {} micro-step{} a "
                                "step; nothing was run, nothing measured",
                                exact_bytes(n.parameters), n.ranks, n.ranks == 1 ? "" : "s", n.recipe.name,
                                name_of(n.optimizer), size_of(n.recipe.params).n, size_of(n.recipe.grads).n,
                                4 * optimizer_words(n.recipe, n.optimizer),
                                n.wire == GradientWire::i64 ? ", gradients sent as i64" : "", n.micro_steps,
                                n.micro_steps == 1 ? "" : "s"));
  text.append("\n").append(held_table(plan));
  text += "model states per rank, without padding, activations or buffers (GB = 10^9 B)\n\n";
  text += sent_table(plan);
  text += paragraph(
      "", fmt::format("payload per rank and step; beside it {} B of losses and {} B of gradient norm",
                      exact_bytes(plan.loss_bytes), exact_bytes(plan.norm_bytes)));
  if (plan.has_exact) text.append("\n").append(exact_part(plan.exact));
  return text;
}

}  // namespace zp
