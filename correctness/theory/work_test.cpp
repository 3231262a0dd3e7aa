// Work in closed form against calls listed one by one.
#include "harness/theory/work.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "correctness/theory/shapes.hpp"
#include "harness/base/check.hpp"
#include "harness/theory/stages.hpp"

namespace zp::theory {
namespace {

class Calls {
 public:
  void run(const std::string& kernel, int64_t elements) {
    ++lines_[kernel].calls;
    lines_[kernel].elements += {elements};
  }
  const WorkLines& lines() const { return lines_; }

 private:
  WorkLines lines_;
};

// The calls of one micro-batch as a forward and a backward pass would make them.
WorkLines calls_of_gpt(const GptShape& s, const Recipe& recipe) {
  const int64_t R = s.rows();
  const int64_t w = s.width;
  const int64_t pairs = s.batch * s.heads * (s.sequence * (s.sequence + 1) / 2) * (w / s.heads);
  Calls calls;
  const auto linear = [&](int64_t in, int64_t out) {
    calls.run("gemm", R * in * out);
    calls.run("add bias", R * out);
  };
  // Parts: 0 the embeddings, then the blocks, then the head.
  const auto is_trained = [&](int64_t part) {
    return s.frozen.empty() || !s.frozen.at(static_cast<size_t>(part));
  };
  const auto linear_backward = [&](int64_t part, int64_t in, int64_t out) {
    if (is_trained(part)) {
      calls.run("bias backward", R * out);
      calls.run("gemm", R * in * out);
    }
    calls.run("gemm", R * in * out);
  };
  calls.run("embedding", R * w);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    calls.run("layer norm", R * w);
    linear(w, 3 * w);
    calls.run("attention", pairs);
    linear(w, w);
    calls.run("add", R * w);
    calls.run("layer norm", R * w);
    linear(w, 4 * w);
    calls.run("gelu", R * 4 * w);
    linear(4 * w, w);
    calls.run("add", R * w);
  }
  calls.run("layer norm", R * w);
  calls.run("gemm", R * w * s.vocabulary);
  calls.run("cross entropy", R * s.vocabulary);

  calls.run("cross entropy backward", R * s.vocabulary);
  if (is_trained(s.tied ? 0 : s.layers + 1)) calls.run("gemm", R * w * s.vocabulary);
  calls.run("gemm", R * w * s.vocabulary);
  calls.run("layer norm backward", R * w);
  int64_t first = 0;
  while (!is_trained(first)) ++first;
  for (int64_t part = s.layers; part >= std::max(first, int64_t{1}); --part) {
    linear_backward(part, 4 * w, w);
    calls.run("gelu backward", R * 4 * w);
    linear_backward(part, w, 4 * w);
    calls.run("layer norm backward", R * w);
    linear_backward(part, w, w);
    calls.run("attention backward", pairs);
    linear_backward(part, w, 3 * w);
    calls.run("layer norm backward", R * w);
  }
  if (first == 0) calls.run("embedding backward", R * w);
  if (recipe.grads != Type::f32) {
    const std::vector<UnitSpec> units = gpt_units(s);
    for (size_t part = 0; part < units.size(); ++part) {
      for (const TensorSpec& tensor : units[part].tensors) {
        const bool in_table = s.tied && part == units.size() - 1 && tensor.shape.size() == 2;
        if (is_trained(in_table ? 0 : static_cast<int64_t>(part))) calls.run("cast", element_count(tensor).n);
      }
    }
    // What the head left in the table is widened again.
    if (s.tied && is_trained(0)) calls.run("cast", s.vocabulary * w);
  }
  return calls.lines();
}

TEST(GptWork, IsTheSumOfItsCalls) {
  for (const GptShape& s : {GptShape{2, 12, 3, 16, 11, 2, 8}, GptShape{1, 8, 2, 32, 5, 1, 7},
                            GptShape{6, 384, 6, 256, 256, 1, 256}}) {
    for (const Recipe& recipe : kRecipes) EXPECT_EQ(gpt_work(s, recipe), calls_of_gpt(s, recipe));
  }
}

TEST(GptWork, OfTiedAndFrozenPartsIsTheSumOfItsCalls) {
  for (const bool tied : {false, true}) {
    // Every choice of frozen parts but that of all: embeddings, three blocks, head.
    for (unsigned choice = 0; choice < 31; ++choice) {
      GptShape s{3, 12, 3, 16, 11, 2, 8};
      s.tied = tied;
      for (unsigned part = 0; part < 5; ++part) s.frozen.push_back((choice >> part & 1U) != 0);
      for (const Recipe& recipe : kRecipes)
        EXPECT_EQ(gpt_work(s, recipe), calls_of_gpt(s, recipe)) << "frozen " << choice << ", tied " << tied;
    }
  }
}

// The calls of one unit's sums in fixed point, made one by one.
void call_fixed_sums(Calls& calls, const Stage& stage, const UnitLayout& unit, const Training& training,
                     Algorithm algorithm) {
  const int64_t world = training.batching.world;
  const int micro_steps = training.batching.micro_steps();
  const bool sharded_grads = stage.name.starts_with("zero2") || stage.name.starts_with("zero3");
  const auto fold_pieces = [&](int64_t elements, int64_t terms) {
    for (int64_t done = 0; done < elements; done += 32768)
      calls.run("integer fold", terms * std::min(elements - done, int64_t{32768}));
  };
  for (int step = 0; step < micro_steps; ++step) {
    if (unit.padded > unit.length) calls.run("initialize", (unit.padded - unit.length).n);
    // Added to the whole sum, or on its way to its owner.
    calls.run("to fixed", unit.padded.n);
    if (!sharded_grads && step + 1 < micro_steps) continue;
    if (world > 1 && algorithm == Algorithm::direct) fold_pieces(unit.slice.n, world - 1);
    for (int64_t slices = world / 2; slices >= 1 && algorithm == Algorithm::halving; slices /= 2)
      fold_pieces(slices * unit.slice.n, 1);
    for (int hop = 1; hop < world && algorithm == Algorithm::ring; ++hop) fold_pieces(unit.slice.n, 1);
    if (world == 1 && (!sharded_grads || micro_steps == 1)) calls.run("from fixed", unit.slice.n);
    if (sharded_grads && step > 0) calls.run("integer fold", unit.slice.n);
  }
}

// A step's calls beside the model's, made one by one at `place`.
void call_sums_and_update(Calls& calls, const Stage& stage, const Layout& layout, const Training& training,
                          Algorithm algorithm, int place) {
  const int world = layout.world();
  const int micro_steps = training.batching.micro_steps();
  const int64_t b_g = size_of(training.recipe.grads).n;
  const bool sharded_grads = stage.name.starts_with("zero2") || stage.name.starts_with("zero3");
  const bool fixed = training.wire == GradientWire::i64;
  for (const UnitLayout& unit : layout.units()) {
    if (fixed) call_fixed_sums(calls, stage, unit, training, algorithm);
    for (int add = 1; add < micro_steps && !fixed; ++add)
      calls.run("fold", sharded_grads ? unit.slice.n : unit.padded.n);
    // Every term but those that open a sum comes through a scratch that another unit may have filled further.
    for (const Visit& visit : visits(training.batching)) {
      const int64_t padding = unit.padded.n - unit.length.n;
      if (!fixed && !sharded_grads && !visit.first && padding > 0) calls.run("initialize", padding);
    }
    for (int reduction = 0; reduction < (sharded_grads ? micro_steps : 1) && !fixed; ++reduction) {
      if (world == 1) {
        // In place, and with nothing to divide by, there is nothing to do.
        if (sharded_grads || training.batching.micro_batches > 1) calls.run("divide", unit.slice.n);
      } else if (algorithm == Algorithm::direct) {
        for (int64_t done = 0; done < unit.slice.n; done += 262144 / b_g) {
          calls.run("fold", (world - 1) * std::min(unit.slice.n - done, 262144 / b_g));
        }
      } else if (algorithm == Algorithm::ring) {
        for (int hop = 1; hop < world; ++hop) {
          for (int64_t done = 0; done < unit.slice.n; done += 262144 / b_g)
            calls.run("fold", std::min(unit.slice.n - done, 262144 / b_g));
        }
      } else {
        for (int slices = world / 2; slices >= 1; slices /= 2) {
          const int64_t received = slices * unit.slice.n;
          for (int64_t done = 0; done < received; done += 262144 / b_g) {
            calls.run("fold", std::min(received - done, 262144 / b_g));
          }
        }
      }
    }
    const Range mine = unit.owned_by(place);
    const Range updated = stage.name == "ddp" ? Range{{0}, unit.length} : mine;
    if (!mine.empty()) calls.run("square sum", mine.length().n);
    for (const TensorLayout& tensor : unit.tensors) {
      const Range part = intersection(tensor.in_unit, updated);
      const std::string method = training.optimizer == Method::sgd ? "sgd" : "adamw";
      if (!part.empty()) calls.run(method, part.length().n);
    }
    const bool in_place = training.recipe.name == "fp32";
    if (!updated.empty() && !in_place) calls.run("cast", updated.length().n);
  }
}

class StageWork : public testing::TestWithParam<Stage> {};

INSTANTIATE_TEST_SUITE_P(Work, StageWork, testing::ValuesIn(kStages), [](const auto& info) {
  std::string name(info.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(StageWork, DoesTheSumOfItsCalls) {
  for (const auto& units : {odd_units(), long_units()}) {
    for (int world = 1; world <= 8; ++world) {
      const bool power_of_two = std::has_single_bit(static_cast<unsigned>(world));
      for (const Algorithm algorithm : {Algorithm::direct, Algorithm::halving, Algorithm::ring}) {
        if (algorithm == Algorithm::halving && !power_of_two) continue;
        for (const int micro_steps : {1, 2, 5}) {
          for (const Training& training : trainings_of(world, micro_steps)) {
            const Layout layout(units, turned(world));
            for (int rank = 0; rank < world; ++rank) {
              Calls calls;
              for (int i = 0; i < micro_steps; ++i) {
                calls.run("gemm", 1234);
                calls.run("cast", 7);
              }
              call_sums_and_update(calls, GetParam(), layout, training, algorithm,
                                   layout.places().place_of(rank));
              EXPECT_EQ(work_per_step(GetParam(), layout, training, algorithm, rank,
                                      {{"gemm", {1, {1234}}}, {"cast", {1, {7}}}}),
                        calls.lines())
                  << "N " << world << ", A " << micro_steps << ", " << name_of(algorithm) << ", rank "
                  << rank;
            }
          }
        }
      }
    }
  }
}

// Optimizer elements Ψ (ddp) or together Ψ (the others); norm together Ψ; additions (N-1)/N of the
// padded elements per reduce-scatter.
TEST_P(StageWork, SharesTheOptimizerButNotTheModel) {
  const int world = 5;
  const Layout layout(odd_units(), turned(world));
  const Training training = training_of(world, 1);
  int64_t updated = 0;
  int64_t squared = 0;
  for (int rank = 0; rank < world; ++rank) {
    WorkLines lines =
        work_per_step(GetParam(), layout, training, Algorithm::direct, rank, {{"gemm", {3, {1000}}}});
    updated += lines["adamw"].elements.n;
    squared += lines["square sum"].elements.n;
    EXPECT_EQ(lines["gemm"], (Work{3, {1000}}));
    EXPECT_EQ(lines["fold"].elements, layout.slices() * (world - 1));
  }
  EXPECT_EQ(updated, layout.parameters().n * (GetParam().optimizer == Held::whole ? world : 1));
  EXPECT_EQ(squared, layout.parameters().n);
}

TEST(SyntheticWork, IsOneCallAUnit) {
  const Layout layout(odd_units(), 3);
  EXPECT_EQ(synthetic_work(layout), (WorkLines{{"synthetic gradient", {3, layout.parameters()}}}));
}

TEST(Work, RefusesABatchingOfAnotherWorld) {
  EXPECT_THROW(work_per_step(kDdp, Layout(odd_units(), 2), training_of(3, 1), Algorithm::direct, 0, {}),
               Error);
}

}  // namespace
}  // namespace zp::theory
