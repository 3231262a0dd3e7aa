// The tables of `plan`.
#include "harness/theory/ledger_table.hpp"

#include <utility>

namespace zp::theory {
namespace {

double bytes_of(Type type) { return static_cast<double>(size_of(type).n); }

bool is_state(Category category) {
  return category == Category::params || category == Category::grads || category == Category::optimizer;
}

Bytes of_purpose(const SentLines& lines, Purpose purpose) {
  const auto found = lines.find(purpose);
  return found == lines.end() ? Bytes{} : total(SentLines{{purpose, found->second}});
}

}  // namespace

std::vector<IdealRow> ideal_table(std::span<const Stage> stages, const PlanNumbers& numbers) {
  const double psi = numbers.parameters;
  const double ranks = numbers.ranks;
  const double b_p = bytes_of(numbers.recipe.params);
  const double b_g = bytes_of(numbers.recipe.grads);
  const double b_wire = numbers.wire == GradientWire::i64 ? bytes_of(Type::i64) : b_g;
  const double k = bytes_of(Type::f32) * optimizer_words(numbers.recipe, numbers.optimizer);
  const auto share = [&](Held held, double bytes) { return held == Held::whole ? bytes : bytes / ranks; };

  std::vector<IdealRow> rows;
  for (const Stage& stage : stages) {
    const Passes count = passes(stage, numbers.micro_steps);
    // (N-1)·Ψ is a whole number: one rounding at most, in the division.
    const auto sent = [&](int64_t times, double each) {
      return (ranks - 1) * psi * static_cast<double>(times) * each / ranks;
    };
    IdealRow row;
    row.stage = stage.name;
    row.params = share(stage.params, b_p * psi);
    row.grads = share(stage.grads, b_g * psi);
    row.optimizer = share(stage.optimizer, k * psi);
    row.gathered = stage.gather == Gather::every_forward ? b_p * psi : 0.0;
    row.sent_params = sent(count.gathers, b_p);
    row.sent_grads = sent(count.reduce_scatters, b_wire) + sent(count.grad_gathers, b_g);
    row.passes = static_cast<double>(count.all());
    rows.push_back(row);
  }
  return rows;
}

double loss_bytes(const PlanNumbers& numbers) {
  return bytes_of(Type::f32) * numbers.micro_steps * (numbers.ranks - 1);
}

double norm_bytes(const PlanNumbers& numbers) {
  return static_cast<double>((kNormLimbs * size_of(Type::i64)).n) * (numbers.ranks - 1);
}

double bytes_of_grad_pass(const Stage& stage, const Training& training) {
  const double wire = bytes_of(training.wire_type());
  return stage.all_reduces ? (wire + bytes_of(training.recipe.grads)) / 2 : wire;
}

std::vector<ExactRow> exact_table(std::span<const Stage> stages, const Layout& layout,
                                  const Training& training, Algorithm algorithm, const HeldLines& constant) {
  std::vector<ExactRow> rows;
  for (const Stage& stage : stages) {
    ExactRow row;
    row.stage = stage.name;
    for (const auto& [category, bytes] : largest_by_category(stage, layout, training, algorithm, constant)) {
      (is_state(category) ? row.states : row.transient)[category] = bytes;
    }
    row.at_peak = held_per_step(stage, layout, training, algorithm, constant).at(Point::step_peak);
    row.sent = sent_per_step(stage, layout, training, algorithm, layout.places().rank_at.front());
    row.sent_params = of_purpose(row.sent, Purpose::gather_params);
    row.sent_grads = of_purpose(row.sent, Purpose::reduce_grads);
    const auto in_passes = [&](Bytes bytes, double of_element) {
      const int64_t pass = layout.slices().n * (layout.world() - 1);
      return pass == 0 ? 0.0 : static_cast<double>(bytes.n) / (of_element * static_cast<double>(pass));
    };
    row.passes = in_passes(row.sent_params, bytes_of(training.recipe.params)) +
                 in_passes(row.sent_grads, bytes_of_grad_pass(stage, training));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace zp::theory
