// Memory in closed form against a step whose every acquisition and release is written down, and by hand.
#include "harness/theory/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "correctness/theory/shapes.hpp"
#include "harness/base/check.hpp"
#include "harness/layout/uses.hpp"
#include "harness/theory/activations.hpp"
#include "harness/theory/stages.hpp"

namespace zp::theory {
namespace {

// What is held now, the moments of the largest totals, and each category's largest since reset_most().
class Meter {
 public:
  void acquire(Category category, int64_t bytes) {
    now_[category] += {bytes};
    if (now_[category].n == 0) now_.erase(category);
    if (bytes > 0) {
      most_[category] = std::max(most_[category], now_[category]);
      ++acquired_[category].calls;
      acquired_[category].bytes += {bytes};
    }
    if (total(now_) > total(step_peak_)) step_peak_ = now_;
    if (in_backward_ && total(now_) > total(backward_peak_)) backward_peak_ = now_;
  }
  void drop(Category category, int64_t bytes) { acquire(category, -bytes); }
  void begin_step() {
    step_peak_ = now_;
    backward_peak_.clear();
    acquired_.clear();
    reset_most();
  }
  void reset_most() { most_ = now_; }
  const HeldLines& most() const { return most_; }
  const std::map<Category, Acquired>& acquired() const { return acquired_; }
  void enter_backward() {
    in_backward_ = true;
    if (total(now_) > total(backward_peak_)) backward_peak_ = now_;
  }
  void leave_backward() { in_backward_ = false; }
  const HeldLines& now() const { return now_; }
  const HeldLines& step_peak() const { return step_peak_; }
  const HeldLines& backward_peak() const { return backward_peak_; }

 private:
  HeldLines now_, step_peak_, backward_peak_, most_;
  std::map<Category, Acquired> acquired_;
  bool in_backward_ = false;
};

void raise_each(HeldLines& most, const HeldLines& moment) {
  for (const auto& [category, bytes] : moment) most[category] = std::max(most[category], bytes);
}

struct Simulated {
  HeldPoints points;
  std::vector<HeldInUse> uses;  // of every micro-step in turn
  std::map<Category, Acquired> acquired;
};

// A step by the hooks of the table in design 2, stage by stage, as a strategy would acquire and drop.
Simulated simulate(const Stage& stage, const Layout& layout, const Training& training, int64_t transport,
                   const HeldLines& constant) {
  const int64_t b_p = size_of(training.recipe.params).n;
  const int64_t b_g = size_of(training.recipe.grads).n;
  const int64_t optimizer =
      (training.recipe.name == "fp32" ? 4 : 8) + (training.optimizer == Method::sgd ? 0 : 4);
  const bool folds = training.batching.accumulate == Accumulate::fold;
  const int micro_steps = training.batching.micro_steps();
  const bool sharded_params = stage.name == "zero3" || stage.name == "zero3-keep";
  const bool sharded_grads = sharded_params || stage.name == "zero2";
  Meter meter;
  for (const auto& [category, bytes] : constant) meter.acquire(category, bytes.n);
  meter.acquire(Category::transport, transport);
  meter.acquire(Category::scalars, 48 * layout.world() + 4 * training.batching.micro_batches);
  const bool fixed = training.wire == GradientWire::i64;  // of int64: one sum, an image of the largest unit
  int64_t most = 0, largest_unit = 0;
  for (const UnitLayout& unit : layout.units()) {
    const int64_t of_grads = (sharded_grads ? unit.slice : unit.padded).n * b_g;
    most = std::max(most, of_grads);
    meter.acquire(Category::params, (sharded_params ? unit.slice : unit.padded).n * b_p);
    meter.acquire(Category::grads, of_grads);
    meter.acquire(Category::optimizer, (stage.name == "ddp" ? unit.padded : unit.slice).n * optimizer);
    if (folds && !fixed) meter.acquire(Category::fold, of_grads * extra_fold_buffers(micro_steps));
    if (fixed && micro_steps > 1) meter.acquire(Category::fold, 2 * of_grads);
    largest_unit = std::max(largest_unit, unit.padded.n);
  }
  if (micro_steps > 1 && (!fixed || sharded_grads)) meter.acquire(Category::fold, fixed ? 2 * most : most);
  if (fixed && (micro_steps == 1 || sharded_grads)) meter.acquire(Category::transport, 8 * largest_unit);

  Simulated result;
  HeldPoints& points = result.points;
  points[Point::after_init] = points[Point::rest_most] = meter.now();
  meter.begin_step();
  for (int step = 0; step < micro_steps; ++step) {
    bool backward = false;
    for (const Use& use : uses(layout)) {
      const int64_t padded = layout.unit(use.unit).padded.n;
      const auto end_use = [&](Point most) {
        raise_each(points[most], meter.most());
        result.uses.push_back({.most = meter.most(), .after = meter.now()});
        meter.reset_most();
      };
      if (use.pass == Pass::forward) {
        if (sharded_params) meter.acquire(Category::gathered, padded * b_p);
        if (stage.name == "zero3") meter.drop(Category::gathered, padded * b_p);
        end_use(Point::forward_most);
        continue;
      }
      if (!backward) {
        backward = true;
        points[Point::after_forward] = meter.now();
        meter.enter_backward();
      }
      if (stage.name == "zero3") meter.acquire(Category::gathered, padded * b_p);
      if (sharded_grads) meter.acquire(Category::bucket, padded * b_g);
      if (sharded_grads) meter.drop(Category::bucket, padded * b_g);
      if (sharded_params) meter.drop(Category::gathered, padded * b_p);
      end_use(Point::backward_most);
    }
    meter.leave_backward();
  }
  points[Point::after_reduction] = points[Point::after_step] = meter.now();
  points[Point::backward_peak] = meter.backward_peak();
  points[Point::step_peak] = meter.step_peak();
  result.acquired = meter.acquired();
  return result;
}

class StageMemory : public testing::TestWithParam<Stage> {};

INSTANTIATE_TEST_SUITE_P(Memory, StageMemory, testing::ValuesIn(kStages), [](const auto& info) {
  std::string name(info.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(StageMemory, HoldsWhatAStepAcquiresAndDoesNotDrop) {
  const HeldLines constant{
      {Category::activations, {1000}}, {Category::workspace, {77}}, {Category::data, {8}}};
  // Units in rising, falling and mixed order of size, so that peaks lie at either end and in between.
  const std::vector<std::vector<UnitSpec>> models{
      odd_units(),
      long_units(),
      {unit_of("a", {{1}}), unit_of("b", {{1000}}), unit_of("c", {{100}})},
      {unit_of("a", {{5000}}), unit_of("b", {{100}}), unit_of("c", {{200}}), unit_of("d", {{90}})},
  };
  for (const auto& units : models) {
    for (int world = 1; world <= 8; ++world) {
      for (const int micro_steps : {1, 2, 4, 9}) {
        for (const Training& training : trainings_of(world, micro_steps)) {
          const Layout layout(units, turned(world));
          const int64_t transport = 2 * 262144 * (world - 1);
          SCOPED_TRACE("N " + std::to_string(world) + ", A " + std::to_string(micro_steps));
          const Simulated step = simulate(GetParam(), layout, training, transport, constant);
          EXPECT_EQ(held_per_step(GetParam(), layout, training, Algorithm::direct, constant), step.points);
          EXPECT_EQ(acquired_per_step(GetParam(), layout, training), step.acquired);
          const auto in_uses = held_in_uses(GetParam(), layout, training, Algorithm::direct, constant);
          ASSERT_EQ(in_uses.size() * static_cast<size_t>(micro_steps), step.uses.size());
          for (size_t at = 0; at < step.uses.size(); ++at) {
            EXPECT_EQ(in_uses[at % in_uses.size()].most, step.uses[at].most) << at;
            EXPECT_EQ(in_uses[at % in_uses.size()].after, step.uses[at].after) << at;
          }
        }
      }
    }
  }
}

TEST_P(StageMemory, HoldsPiecesForOnePartnerInHalving) {
  const Layout layout(odd_units(), 8);
  const HeldPoints points = held_per_step(GetParam(), layout, training_of(8, 1), Algorithm::halving, {});
  EXPECT_EQ(points.at(Point::after_init).at(Category::transport), Bytes{2 * 262144});
  const Layout alone(odd_units(), 1);
  const HeldPoints without = held_per_step(GetParam(), alone, training_of(1, 1), Algorithm::halving, {});
  EXPECT_FALSE(without.at(Point::after_init).contains(Category::transport));
}

TEST_P(StageMemory, NeverHoldsMoreOfACategoryThanItsLargest) {
  const Layout layout({unit_of("a", {{5000}}), unit_of("b", {{9000}}), unit_of("c", {{200}})}, 4);
  const HeldLines largest =
      largest_by_category(GetParam(), layout, training_of(4, 2), Algorithm::halving, {});
  HeldLines seen;
  for (const auto& [point, lines] :
       held_per_step(GetParam(), layout, training_of(4, 2), Algorithm::halving, {})) {
    for (const auto& [category, bytes] : lines) {
      EXPECT_LE(bytes, largest.at(category));
      seen[category] = std::max(seen[category], bytes);
    }
  }
  if (GetParam().grads == Held::slice) {
    EXPECT_EQ(largest.at(Category::bucket), layout.unit(1).padded * Bytes{4});
  } else {
    EXPECT_EQ(seen, largest);
  }
}

// Units of 10 and 6 parameters on two ranks, alignment 1, recipe bf16-fp32grad, A = 1: by hand.
TEST(Memory, OfZero3IsThis) {
  const Layout layout({unit_of("a", {{10}}), unit_of("b", {{6}})}, 2, 1);
  const HeldPoints points = held_per_step(kZero3, layout, training_of(2, 1), Algorithm::direct, {});
  const HeldLines standing{{Category::params, {16}},
                           {Category::grads, {32}},
                           {Category::optimizer, {96}},
                           {Category::transport, {524288}},
                           {Category::scalars, {104}}};
  EXPECT_EQ(points.at(Point::after_init), standing);
  EXPECT_EQ(points.at(Point::after_forward), standing);
  HeldLines peak = standing;
  peak[Category::gathered] = {20};
  peak[Category::bucket] = {40};
  EXPECT_EQ(points.at(Point::backward_peak), peak);
  EXPECT_EQ(points.at(Point::step_peak), peak);
  EXPECT_EQ(points.at(Point::after_step), standing);
}

TEST(Memory, OfZero3KeepIsAllParametersAfterForward) {
  const Layout layout({unit_of("a", {{10}}), unit_of("b", {{6}})}, 2, 1);
  const HeldPoints points = held_per_step(kZero3Keep, layout, training_of(2, 1), Algorithm::direct, {});
  EXPECT_EQ(points.at(Point::after_forward).at(Category::gathered), Bytes{32});
  // Last unit: 32 + 24 bytes; first unit: 20 + 40.
  EXPECT_EQ(points.at(Point::backward_peak).at(Category::gathered), Bytes{20});
  EXPECT_EQ(points.at(Point::backward_peak).at(Category::bucket), Bytes{40});
  EXPECT_FALSE(points.at(Point::after_reduction).contains(Category::gathered));
}

// Units of 10, 6 and 4 elements: zero3 gathers one use ahead, and reductions run beside what follows.
TEST(Memory, OfAScheduleIsThisUseByUse) {
  const Layout layout({unit_of("a", {{10}}), unit_of("b", {{6}}), unit_of("c", {{4}})}, 2, 1);
  Training training = training_of(2, 2);
  training.schedule = {.bucket = {}, .prefetch = 1, .overlap = Overlap::on};
  const auto in_uses = held_in_uses(kZero3, layout, training, Algorithm::direct, {});
  // Forward a b c, backward c b a; 2 bytes a gathered element, 4 of a gradient.
  const std::vector<std::array<int64_t, 4>> expected{
      // gathered and bucket: most, then after
      {32, 0, 12, 0}, {20, 0, 8, 0}, {16, 0, 8, 0}, {20, 16, 12, 16}, {32, 40, 20, 24}, {20, 64, 0, 40}};
  const auto of = [](const HeldLines& lines, Category category) {
    return lines.contains(category) ? lines.at(category).n : 0;
  };
  ASSERT_EQ(in_uses.size(), expected.size());
  for (size_t use = 0; use < expected.size(); ++use) {
    const auto& [gathered, bucket, gathered_after, bucket_after] = expected[use];
    EXPECT_EQ(of(in_uses[use].most, Category::gathered), gathered) << use;
    EXPECT_EQ(of(in_uses[use].most, Category::bucket), bucket) << use;
    EXPECT_EQ(of(in_uses[use].after, Category::gathered), gathered_after) << use;
    EXPECT_EQ(of(in_uses[use].after, Category::bucket), bucket_after) << use;
  }
  const HeldPoints points = held_per_step(kZero3, layout, training, Algorithm::direct, {});
  EXPECT_EQ(of(points.at(Point::forward_most), Category::gathered), 32);
  EXPECT_EQ(of(points.at(Point::forward_most), Category::bucket), 0);
  EXPECT_EQ(of(points.at(Point::backward_most), Category::bucket), 64);
  EXPECT_EQ(of(points.at(Point::rest_most), Category::gathered), 0);
  EXPECT_EQ(of(points.at(Point::rest_most), Category::bucket), 40);
  const auto acquired = acquired_per_step(kZero3, layout, training);
  EXPECT_EQ(acquired.at(Category::gathered), (Acquired{.calls = 12, .bytes = {2 * 2 * 20 * 2}}));
  EXPECT_EQ(acquired.at(Category::bucket), (Acquired{.calls = 6, .bytes = {2 * 20 * 4}}));
}

// Units of 10, 6 and 4 elements, two ranks, alignment 1; the last one borrows the first.
Layout borrowing_layout() {
  std::vector<UnitSpec> units{unit_of("a", {{10}}), unit_of("b", {{6}}), unit_of("c", {{4}})};
  units.back().borrows = 0;
  return {units, 2, 1};
}

struct Line {
  int64_t most = 0, after = 0;
};

// Of one category, use by use: forward a b c, backward c b a.
void expect_lines(const std::vector<HeldInUse>& in_uses, Category category, const std::vector<Line>& lines) {
  const auto of = [&](const HeldLines& held) { return held.contains(category) ? held.at(category).n : 0; };
  ASSERT_EQ(in_uses.size(), lines.size());
  for (size_t use = 0; use < lines.size(); ++use) {
    EXPECT_EQ(of(in_uses[use].most), lines[use].most) << name_of(category) << ", use " << use;
    EXPECT_EQ(of(in_uses[use].after), lines[use].after) << name_of(category) << ", use " << use;
  }
}

TEST(Memory, OfABorrowedUnitIsThisUseByUse) {
  const Layout layout = borrowing_layout();
  const Training training = training_of(2, 1);
  const auto in_uses = held_in_uses(kZero3, layout, training, Algorithm::direct, {});
  expect_lines(in_uses, Category::gathered, {{20, 0}, {12, 0}, {28, 0}, {28, 0}, {12, 0}, {20, 0}});
  expect_lines(in_uses, Category::bucket, {{0, 0}, {0, 0}, {0, 0}, {56, 40}, {64, 40}, {40, 0}});
  const auto acquired = acquired_per_step(kZero3, layout, training);
  EXPECT_EQ(acquired.at(Category::gathered), (Acquired{.calls = 8, .bytes = {2 * (2 * 20 + 2 * 10)}}));
  EXPECT_EQ(acquired.at(Category::bucket), (Acquired{.calls = 3, .bytes = {4 * 20}}));
}

// 40 bytes of scratch for the largest unit, and as many for the borrowed one from the borrower's backward on.
TEST(Memory, OfABorrowedUnitTakesASecondScratchWhereWholeGradientsAreFolded) {
  const Layout layout = borrowing_layout();
  for (const Stage& stage : {kDdp, kZero1}) {
    const auto in_uses = held_in_uses(stage, layout, training_of(2, 2), Algorithm::direct, {});
    expect_lines(in_uses, Category::fold, {{40, 40}, {40, 40}, {40, 40}, {80, 80}, {80, 80}, {80, 40}});
    EXPECT_TRUE(acquired_per_step(stage, layout, training_of(2, 1)).empty()) << "one micro-step has no fold";
  }
  const auto sliced = held_in_uses(kZero2, layout, training_of(2, 2), Algorithm::direct, {});
  expect_lines(sliced, Category::fold, {{20, 20}, {20, 20}, {20, 20}, {20, 20}, {20, 20}, {20, 20}});
}

TEST(Memory, OfKeptUnitsLiesBetweenZero3AndZero3Keep) {
  const Layout layout({unit_of("a", {{10}}), unit_of("b", {{6}}), unit_of("c", {{4}})}, 2, 1);
  Training training = training_of(2, 1);
  training.keep = 2;
  expect_lines(held_in_uses(kZero3, layout, training, Algorithm::direct, {}), Category::gathered,
               {{20, 0}, {12, 12}, {20, 20}, {20, 12}, {12, 0}, {20, 0}});
  EXPECT_EQ(acquired_per_step(kZero3, layout, training).at(Category::gathered),
            (Acquired{.calls = 4, .bytes = {2 * (2 * 10 + 6 + 4)}}));
  training.keep = 3;
  EXPECT_EQ(held_per_step(kZero3, layout, training, Algorithm::direct, {}),
            held_per_step(kZero3Keep, layout, training, Algorithm::direct, {}));
}

// The middle unit is frozen: no gradient of its own, and the last one's reduction runs on beside it.
TEST(Memory, OfAFrozenUnitIsItsParameters) {
  std::vector<UnitSpec> units{unit_of("a", {{10}}), unit_of("b", {{6}}), unit_of("c", {{4}})};
  units[1].frozen = true;
  const Layout layout(units, 2, 1);
  Training training = training_of(2, 1);
  training.schedule.overlap = Overlap::on;
  const auto in_uses = held_in_uses(kZero3, layout, training, Algorithm::direct, {});
  expect_lines(in_uses, Category::bucket, {{0, 0}, {0, 0}, {0, 0}, {16, 16}, {16, 16}, {56, 40}});
  expect_lines(in_uses, Category::gathered, {{20, 0}, {12, 0}, {8, 0}, {8, 0}, {12, 0}, {20, 0}});
  const HeldPoints points = held_per_step(kZero3, layout, training, Algorithm::direct, {});
  EXPECT_EQ(points.at(Point::after_init).at(Category::params), Bytes{20});
  EXPECT_EQ(points.at(Point::after_init).at(Category::grads), Bytes{4 * 7});
  EXPECT_EQ(points.at(Point::after_init).at(Category::optimizer), Bytes{12 * 7});
}

TEST(Memory, RefusesABatchingOfAnotherWorld) {
  EXPECT_THROW(held_per_step(kDdp, Layout(odd_units(), 2), training_of(3, 1), Algorithm::direct, {}), Error);
}

// Buffer by buffer, from the architecture: B = 2 sequences of T = 8, w = 12, h = 3, L = 2, V = 11, P = 16.
TEST(Activations, AreTheseBuffers) {
  const GptShape s{
      .layers = 2, .width = 12, .heads = 3, .positions = 16, .vocabulary = 11, .batch = 2, .sequence = 8};
  int64_t floats = 0;
  const auto rows_of = [&](int64_t columns) { floats += 16 * columns; };
  for (int stream = 0; stream < 3; ++stream) rows_of(12);
  for (int layer = 0; layer < 2; ++layer) {
    for (int norm = 0; norm < 2; ++norm) {
      rows_of(12);
      rows_of(1);
      rows_of(1);
    }
    rows_of(36);
    floats += 2 * (2 * 3 * 8);  // row maximum and sum: batch x heads x sequence
    rows_of(12);
    rows_of(12);
    rows_of(48);
    rows_of(48);
  }
  for (const int64_t columns : {12, 1, 1, 11, 1, 1, 1}) rows_of(columns);
  floats += 1;
  for (const int64_t columns : {12, 12, 48}) rows_of(columns);
  EXPECT_EQ(gpt_activations(s), Bytes{4 * floats});
  EXPECT_EQ(gpt_data(s), Bytes{4 * 2 * 16});
  EXPECT_EQ(gpt_gradient_image(s, kRecipes[0]), Bytes{0});
  EXPECT_EQ(gpt_gradient_image(s, kRecipes[1]), Bytes{4 * 48 * 12});
  GptShape wordy = s;
  wordy.vocabulary = 100;
  EXPECT_EQ(gpt_gradient_image(wordy, kRecipes[1]), Bytes{4 * 116 * 12});
}

TEST(Activations, GrowWithTheSequenceNotWithItsSquare) {
  GptShape s{.layers = 2,
             .width = 64,
             .heads = 4,
             .positions = 4096,
             .vocabulary = 256,
             .batch = 1,
             .sequence = 512};
  const int64_t once = gpt_activations(s).n - 4;  // without the loss itself
  s.sequence = 2048;
  EXPECT_EQ(gpt_activations(s).n - 4, 4 * once);
}

TEST(KernelWorkspace, IsTheLargerOfPanelsAndAttentionBlocks) {
  EXPECT_EQ(host_kernel_workspace(1, 0), Bytes{4 * 512 * (1024 + 192)});
  EXPECT_EQ(host_kernel_workspace(2, 128), Bytes{4 * 512 * (1024 + 2 * 192)});
  EXPECT_EQ(host_kernel_workspace(3, 256), Bytes{4 * 3 * (2 * 256 * 272 + (256 + 72) * 512)});
  EXPECT_EQ(host_kernel_workspace(2, 1023), Bytes{4 * 2 * (2 * 512 * 1040 + (1024 + 72) * 512)});
  const GptShape s{
      .layers = 1, .width = 8, .heads = 2, .positions = 16, .vocabulary = 5, .batch = 1, .sequence = 16};
  EXPECT_EQ(gpt_constants(s, kRecipes[1], {1000}).at(Category::workspace).n, 4 * 256 + 1000);
  EXPECT_EQ(total(synthetic_constants({})), Bytes{});
  EXPECT_EQ(total(synthetic_constants({12})), Bytes{12});
}

}  // namespace
}  // namespace zp::theory
