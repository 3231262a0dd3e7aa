// Mutants of the gradient's way: averaging, accumulation, reduction, norm, optimizer.
#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "correctness/mutants/cases.hpp"
#include "correctness/mutants/wrong_parts.hpp"
#include "correctness/mutants/wrong_strategies.hpp"

namespace zp::mutants {
namespace {

// Divides by N instead of M.
std::function<Faults(int)> averages_over_ranks_only() {
  return [](int) {
    const auto ranks = std::make_shared<float>(1.0F);
    Faults faults;
    faults.transport = [ranks](Transport& inner) {
      *ranks = static_cast<float>(inner.world());
      return std::make_unique<WrongTransport>(inner);
    };
    faults.kernels = [ranks](kernels::Table& inner) {
      return std::make_unique<WrongTable>(inner, [ranks](kernels::Table& table, const kernels::Call& call) {
        const auto* fold = as<kernels::Fold>(call);
        if (fold == nullptr || fold->divisor == 1.0F) return table.run(call);
        kernels::Fold other = *fold;
        other.divisor = *ranks;
        table.run(other);
      });
    };
    return faults;
  };
}

// ---- Gradients: the classes of wrong averaging, lost and doubled contributions

Case averaged_twice() {
  Trial m{.name = "AveragedTwice", .stage = "ddp", .world = 4};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    if (const auto* fold = as<kernels::Fold>(call); fold && fold->divisor != 1.0F) {
      kernels::Fold twice = *fold;
      twice.divisor *= fold->divisor;
      return table.run(twice);
    }
    table.run(call);
  });
  return {m, {Claim::bits}, "grad"};
}

Case not_averaged() {
  Trial m{.name = "NotAveraged", .stage = "zero2", .world = 1};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    if (const auto* fold = as<kernels::Fold>(call); fold && fold->divisor != 1.0F) {
      kernels::Fold sum = *fold;
      sum.divisor = 1.0F;
      return table.run(sum);
    }
    table.run(call);
  });
  return {m, {Claim::bits}, "grad"};
}

Case averaged_over_ranks_only() {
  Trial m{.name = "AveragedOverRanksOnly", .stage = "zero1", .world = 3, .micro_batches = 9};
  m.faults = averages_over_ranks_only();
  return {m, {Claim::bits}, "grad"};
}

Case second_micro_step_replaces_first() {
  Trial m{.name = "SecondMicroStepReplacesFirst", .stage = "zero3", .world = 2};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    table.run(call);
    // The sum over micro-steps adds a scratch to a gradient in place.
    if (const auto* fold = as<kernels::Fold>(call);
        fold && fold->inputs.size() == 2 && fold->inputs[1].storage()->category == Category::fold) {
      std::copy_n(fold->inputs[1].read<float>(), fold->out.length().n, fold->out.write<float>());
    }
  });
  return {m, {Claim::bits}, "grad"};
}

Case reduced_in_bf16() {
  Trial m{.name = "ReducedInBf16", .stage = "zero2", .world = 2};
  m.faults = reductions([](Transport& inner, const ReduceScatter& call) {
    float* whole = call.whole.write<float>();
    for (int64_t i = 0; i < call.whole.length().n; ++i) whole[i] = widen(round_to_bf16(whole[i]));
    return inner.reduce_scatter(call);
  });
  return {m, {Claim::bits}, "grad"};
}

// In fixed point: a partial sum that becomes fp32 between two hops.
Case partial_sums_converted_back() {
  Trial m{.name = "PartialSumsConvertedBack", .stage = "zero1", .world = 4, .wire = GradientWire::i64};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    table.run(call);
    const auto* fold = as<kernels::Fold>(call);
    if (!fold || fold->out.type() != Type::i64) return;
    int64_t* sum = fold->out.write<int64_t>();
    for (int64_t i = 0; i < fold->out.length().n; ++i)
      sum[i] = static_cast<int64_t>(static_cast<float>(static_cast<double>(sum[i])));
  });
  return {m, {Claim::bits}, "grad"};
}

// A ring whose sums set out one place too late: every slice is summed one place behind its owner, which then
// gets it by a gather.
Case ring_off_by_one() {
  Trial m{.name = "RingOffByOne", .stage = "zero1", .world = 4, .algorithm = Algorithm::ring};
  m.faults = reductions([](Transport& inner, const ReduceScatter& call) {
    const int64_t slice = call.mine.length().n;
    float* whole = call.whole.write<float>();
    std::rotate(whole, whole + call.whole.length().n - slice, whole + call.whole.length().n);
    inner.reduce_scatter(call).wait();
    const auto device = make_host_device(Fill::zero);
    const Buffer all = device->acquire(Category::bucket, Type::f32, call.whole.length());
    inner.all_gather({.mine = call.mine, .whole = all.all(), .cuts = call.cuts, .label = call.label}).wait();
    const int next = (inner.place() + 1) % inner.world();
    std::copy_n(all.all().read<float>() + next * slice, slice, call.mine.write<float>());
    return Handle();
  });
  return {m, {Claim::bits, Claim::bytes}, "grad"};
}

// In fixed point of 36 bits, gradients of 2⁻⁹ wrap.
Case fixed_point_wraps() {
  Trial m{.name = "FixedPointWraps", .stage = "zero2", .world = 3, .wire = GradientWire::i64};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    table.run(call);
    const auto* fixed = as<kernels::ToFixed>(call);
    if (!fixed) return;
    int64_t* z = fixed->to.write<int64_t>();
    for (int64_t i = 0; i < fixed->to.length().n; ++i)
      z[i] = static_cast<int64_t>(static_cast<uint64_t>(z[i]) << 28) >> 28;
  });
  return {m, {Claim::bits}, "grad"};
}

Case slice_off_by_one() {
  Trial m{.name = "SliceOffByOne", .stage = "zero1", .world = 4};
  m.faults = reductions([](Transport& inner, const ReduceScatter& call) {
    inner.reduce_scatter(call).wait();
    float* mine = call.mine.write<float>();
    std::rotate(mine, mine + 1, mine + call.mine.length().n);
    return Handle();
  });
  return {m, {Claim::bits}, "grad"};
}

Case stale_padding_added() {
  Trial m{.name = "StalePaddingAdded", .stage = "zero1", .world = 4, .fill = Fill::zero};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    const auto* zeros = as<kernels::Initialize>(call);
    if (zeros && zeros->x.storage()->category == Category::fold) return;
    table.run(call);
  });
  return {m, {Claim::bits, Claim::work}, "padding of averaged gradient"};
}

Case last_unit_never_reduced() {
  Trial m{.name = "LastUnitNeverReduced", .stage = "zero2", .world = 2, .fill = Fill::zero};
  m.faults = reductions([](Transport& inner, const ReduceScatter& call) {
    return call.label.tensor == kLastUnit ? Handle() : inner.reduce_scatter(call);
  });
  return {m, {Claim::bits, Claim::bytes, Claim::work}, "grad"};
}

Case other_micro_batches() {
  return {{.name = "OtherMicroBatches", .stage = "zero2", .world = 2, .make = takes_other_micro_batches},
          {Claim::bits},
          "micro-batch"};
}

Case one_rank_computes_wrongly() {
  Trial m{.name = "OneRankComputesWrongly", .stage = "zero3", .world = 3, .micro_batches = 9};
  m.faults = computes(
      [](kernels::Table& table, const kernels::Call& call) {
        table.run(call);
        if (const auto* bias = as<kernels::BiasBackward>(call)) bias->dbias.write<float>()[0] *= 1.0000002F;
      },
      1);
  return {m, {Claim::bits}, "rank 1"};
}

// ---- Norm and optimizer

Case own_norm_clips() {
  return {{.name = "OwnNormClips", .stage = "zero2", .world = 4, .clip = 0.1, .make = clips_by_own_norm},
          {Claim::bits},
          "norm"};
}

Case clip_not_applied() {
  Trial m{.name = "ClipNotApplied", .stage = "zero3", .world = 2, .clip = 0.1};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    if (const auto* adamw = as<kernels::AdamW>(call)) {
      kernels::AdamW unclipped = *adamw;
      unclipped.clip = 1.0F;
      return table.run(unclipped);
    }
    table.run(call);
  });
  return {m, {Claim::bits}, "param"};
}

Case step_counter_per_unit() {
  return {{.name = "StepCounterPerUnit", .stage = "zero2", .world = 2, .make = counts_steps_per_unit},
          {Claim::bits},
          "param"};
}

Case weight_decay_on_vectors() {
  Trial m{.name = "WeightDecayOnVectors", .stage = "zero1", .world = 2};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    if (const auto* adamw = as<kernels::AdamW>(call)) {
      kernels::AdamW decayed = *adamw;
      decayed.decay = 0.1F;
      return table.run(decayed);
    }
    table.run(call);
  });
  return {m, {Claim::bits}, "master"};
}

Case last_unit_not_updated() {
  return {{.name = "LastUnitNotUpdated", .stage = "zero2", .world = 2, .make = skips_last_unit},
          {Claim::bits, Claim::work},
          "param"};
}

Case bf16_copy_not_refreshed() {
  Trial m{.name = "Bf16CopyNotRefreshed", .stage = "ddp", .world = 2};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    const auto* cast = as<kernels::Cast>(call);
    const bool refresh = cast && cast->from.storage()->category == Category::optimizer;
    static thread_local int seen = 0;
    // The first casts make the initial parameters.
    if (refresh && ++seen > kLastUnit + 1) return;
    table.run(call);
  });
  return {m, {Claim::bits, Claim::work}, "param"};
}

// ---- SGD: a wrong scale, which AdamW's parameters hardly show

Case sgd_averages_over_ranks_only() {
  Trial m{.name = "SgdAveragesOverRanksOnly", .stage = "zero1", .world = 3, .micro_batches = 9};
  m.optimizer = Method::sgd;
  m.faults = averages_over_ranks_only();
  return {m, {Claim::bits}, "grad"};
}

// The averaged gradient and its norm are right, and the optimizer averages once more.
Case sgd_averages_again() {
  Trial m{.name = "SgdAveragesAgain", .stage = "ddp", .world = 4, .recipe = "fp32", .clip = 0.0};
  m.optimizer = Method::sgd;
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    const auto* sgd = as<kernels::Sgd>(call);
    if (sgd == nullptr) return table.run(call);
    kernels::Sgd again = *sgd;
    again.clip /= 4.0F;
    table.run(again);
  });
  return {m, {Claim::bits}, "parameters of"};
}

// The first step is right: only the second has momentum.
Case sgd_forgets_its_momentum() {
  Trial m{.name = "SgdForgetsItsMomentum", .stage = "zero3", .world = 2};
  m.optimizer = Method::sgd;
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    const auto* sgd = as<kernels::Sgd>(call);
    if (sgd == nullptr) return table.run(call);
    kernels::Sgd plain = *sgd;
    plain.momentum = 0.0F;
    table.run(plain);
  });
  return {m, {Claim::bits}, "step 1"};
}

// ---- Micro-steps added one after another

// Pairs are added first, as in a fold, with the buffer that this takes.
Case folds_what_is_sequential() {
  Trial m{.name = "FoldsWhatIsSequential", .stage = "zero2", .world = 2, .micro_batches = 8};
  m.accumulate = Accumulate::sequential;
  m.make = folds_micro_steps;
  return {m, {Claim::bits, Claim::memory}, "averaged gradient"};
}

// ---- fp32 parameters: what a rounded copy of a master hides

// Parameters that the optimizer updates through a copy of its own are a step behind it.
Case updates_a_stale_copy() {
  Trial m{.name = "UpdatesAStaleCopy", .stage = "zero1", .world = 2, .recipe = "fp32"};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    const auto* adamw = as<kernels::AdamW>(call);
    if (adamw == nullptr) return table.run(call);
    static thread_local std::map<const void*, std::vector<float>> copies;
    const View& params = adamw->master;
    const std::vector<float> before(params.read<float>(), params.read<float>() + params.length().n);
    const auto [copy, fresh] = copies.try_emplace(params.read<float>(), before);
    if (!fresh) std::ranges::copy(copy->second, params.write<float>());
    table.run(call);
    copy->second.assign(params.read<float>(), params.read<float>() + params.length().n);
    if (!fresh) std::ranges::copy(before, params.write<float>());
  });
  m.steps = 3;
  return {m, {Claim::bits}, "parameters of"};
}

// Half the bytes' worth of every parameter is lost, and nobody who casts it to bf16 would see it.
Case gathered_through_bf16() {
  Trial m{.name = "GatheredThroughBf16", .stage = "zero3", .world = 2, .recipe = "fp32"};
  m.faults = gathers([](Transport& inner, const AllGather& call) {
    if (call.label.purpose != Purpose::gather_params) return inner.all_gather(call);
    inner.all_gather(call).wait();
    float* whole = call.whole.write<float>();
    for (int64_t i = 0; i < call.whole.length().n; ++i) whole[i] = widen(round_to_bf16(whole[i]));
    return Handle();
  });
  return {m, {Claim::bits}, "weights of"};
}

}  // namespace

std::vector<Case> gradient_mutants() {
  return {averaged_twice(),
          not_averaged(),
          averaged_over_ranks_only(),
          second_micro_step_replaces_first(),
          reduced_in_bf16(),
          partial_sums_converted_back(),
          ring_off_by_one(),
          fixed_point_wraps(),
          slice_off_by_one(),
          stale_padding_added(),
          last_unit_never_reduced(),
          other_micro_batches(),
          one_rank_computes_wrongly(),
          own_norm_clips(),
          clip_not_applied(),
          step_counter_per_unit(),
          weight_decay_on_vectors(),
          last_unit_not_updated(),
          bf16_copy_not_refreshed(),
          updates_a_stale_copy(),
          gathered_through_bf16(),
          sgd_averages_over_ranks_only(),
          sgd_averages_again(),
          sgd_forgets_its_momentum(),
          folds_what_is_sequential()};
}

}  // namespace zp::mutants
