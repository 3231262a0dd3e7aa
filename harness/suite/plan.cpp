// zeroproof plan: gathers what theory says into plain data, and prints it.
#include "harness/suite/plan.hpp"

#include <cstdio>

#include "harness/report/tables.hpp"
#include "harness/theory/activations.hpp"
#include "harness/theory/stages.hpp"
#include "harness/transport/transport.hpp"

namespace zp {

namespace {

theory::HeldLines constants(const PlanOptions& options, const Recipe& recipe) {
  const ModelConfig& model = *options.model;
  if (model.architecture == Architecture::synthetic)
    return theory::synthetic_constants(theory::host_kernel_workspace(options.threads, 0));
  const theory::GptShape shape{.layers = model.layers,
                               .width = model.width,
                               .heads = model.heads,
                               .positions = model.positions,
                               .vocabulary = model.vocabulary,
                               .batch = options.micro_batch_size,
                               .sequence = options.sequence > 0 ? options.sequence : model.positions,
                               .tied = model.tied,
                               .frozen = frozen_parts(model)};
  return theory::gpt_constants(shape, recipe, theory::host_kernel_workspace(options.threads, shape.sequence));
}

PlanExact exact_plan(const PlanOptions& options, const Recipe& recipe) {
  const ModelConfig& model = *options.model;
  const Layout layout(model_units(model), options.ranks);
  Training training;
  training.recipe = recipe;
  training.keep = options.keep;
  training.batching = {.world = options.ranks,
                       .micro_batches = options.ranks * options.micro_steps,
                       .accumulate = options.accumulate};
  training.optimizer = options.optimizer;
  training.wire = options.wire;
  PlanExact exact;
  exact.model = model.name;
  exact.micro_batch_size = options.micro_batch_size;
  exact.sequence = options.sequence > 0 ? options.sequence : model.positions;
  exact.micro_batches = training.batching.micro_batches;
  exact.accumulate = options.accumulate;
  exact.threads = options.threads;
  exact.algorithm = options.algorithm.value_or(default_algorithm(options.ranks, training.wire_type()));
  exact.parameters = layout.parameters();
  exact.padded = layout.padded();
  for (const UnitLayout& unit : layout.units()) {
    exact.units.push_back(
        {.name = unit.name, .parameters = unit.length, .slice = unit.slice, .padded = unit.padded});
  }
  exact.rows =
      theory::exact_table(theory::kStages, layout, training, exact.algorithm, constants(options, recipe));
  return exact;
}

}  // namespace

PlanResult make_plan(const PlanOptions& options) {
  const Recipe recipe = recipe_named(options.recipe);
  PlanResult plan;
  if (options.model) {
    plan.has_exact = true;
    plan.exact = exact_plan(options, recipe);
  }
  plan.numbers.parameters = options.model ? static_cast<double>(plan.exact.parameters.n) : options.parameters;
  plan.numbers.ranks = options.ranks;
  plan.numbers.recipe = recipe;
  plan.numbers.micro_steps = options.micro_steps;
  plan.numbers.optimizer = options.optimizer;
  plan.numbers.wire = options.wire;
  plan.rows = theory::ideal_table(theory::kStages, plan.numbers);
  plan.loss_bytes = theory::loss_bytes(plan.numbers);
  plan.norm_bytes = theory::norm_bytes(plan.numbers);
  return plan;
}

Exit plan(const PlanOptions& options) {
  const PlanResult result = make_plan(options);
  if (!options.out.empty()) write_records(options.out, options.existing, result);
  std::fputs(plan_table(result).c_str(), stdout);
  return Exit::pass;
}

}  // namespace zp
