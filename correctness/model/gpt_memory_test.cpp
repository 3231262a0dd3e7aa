// What a GPT touches and asks for: nothing outside its units' logical elements, nothing that was not written,
// and the buffers and calls of [Note: what one micro-batch allocates and calls].
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "correctness/model/model_run.hpp"

namespace zp::test {
namespace {

MicroBatch tokens_for(const ModelConfig& config, const BatchShape& shape, uint64_t seed) {
  const Corpus corpus = Corpus::synthetic(seed, 1000, config.vocabulary);
  return corpus.micro_batch(seed, 0, 0, shape.batch, shape.sequence);
}

const BatchShape kLongShape{.batch = 2, .sequence = 29};

ModelConfig tiny(bool tied, int64_t unit_blocks = 1) {
  ModelConfig config = model_preset("tiny");
  config.tied = tied;
  config.unit_blocks = unit_blocks;
  return config;
}

TEST(Gpt, LeavesPaddingAndNeighboursAlone) {
  for (const Recipe& recipe : kRecipes) {
    for (const int world : {1, 3, 8}) {
      const ModelConfig config = tiny(world == 3, world == 8 ? 2 : 1);
      ModelRun run(config, kLongShape, recipe, lively, Fill::nan, world);
      const Outcome outcome = run.run(0, 0, tokens_for(config, kLongShape, 1));
      EXPECT_FALSE(std::isnan(outcome.loss));
      for (size_t unit = 0; unit < outcome.grads.size(); ++unit) {
        EXPECT_TRUE(run.grads()[unit].untouched_around()) << recipe.name << ", unit " << unit;
        EXPECT_TRUE(run.weights()[unit].untouched_around()) << recipe.name << ", unit " << unit;
        for (const float grad : outcome.grads[unit]) ASSERT_TRUE(std::isfinite(grad)) << "unit " << unit;
      }
    }
  }
}

TEST(Gpt, ReadsNothingThatWasNotWritten) {
  for (const bool tied : {false, true}) {
    const ModelConfig config = tiny(tied);
    const MicroBatch tokens = tokens_for(config, kLongShape, 2);
    for (const Recipe& recipe : kRecipes) {
      ModelRun zero(config, kLongShape, recipe, lively, Fill::zero);
      ModelRun nan(config, kLongShape, recipe, lively, Fill::nan);
      EXPECT_EQ(zero.run(0, 0, tokens), nan.run(0, 0, tokens)) << recipe.name;
    }
  }
}

// A table that head and embeddings share has the sum of two tables' gradients, exactly so where no token
// occurs twice; blocks are what they are, however many form a unit.
TEST(Gpt, TiedIsTheSumOfItsTwoTables) {
  MicroBatch tokens = tokens_for(tiny(false), kLongShape, 5);
  for (size_t i = 0; i < tokens.inputs.size(); ++i)
    tokens.inputs[i] = static_cast<int32_t>((7 * i + 3) % 256);
  // Both tables of the untied model hold the tied one's values.
  const auto one_table = [](const TensorSpec& tensor, int64_t element) {
    TensorSpec same = tensor;
    if (tensor.name == "head.weight") same.name = "embeddings.token.weight";
    return lively(same, element);
  };
  ModelRun apart(tiny(false), kLongShape, kFp32Grads, one_table);
  ModelRun tied(tiny(true, 3), kLongShape, kFp32Grads, one_table);
  const Outcome two = apart.run(0, 0, tokens), one = tied.run(0, 0, tokens);
  EXPECT_EQ(one.loss, two.loss);
  ASSERT_EQ(one.grads.size(), 3U);
  const size_t table = 256 * 45, norm = 2 * 45;
  int both = 0;
  for (size_t i = 0; i < table; ++i) {
    const float of_embeddings = two.grads[0][i], of_head = two.grads[4][norm + i];
    ASSERT_EQ(one.grads[0][i], of_head + of_embeddings) << i;
    both += of_embeddings != 0 && of_head != 0 ? 1 : 0;
  }
  EXPECT_GT(both, 58 * 40) << "every token's row has a part of both";
  std::vector<float> blocks;
  for (size_t unit = 1; unit <= 3; ++unit)
    blocks.insert(blocks.end(), two.grads[unit].begin(), two.grads[unit].end());
  EXPECT_EQ(one.grads[1], blocks);
}

TEST(Gpt, ForgetsTheMicroBatchBefore) {
  const ModelConfig config = model_preset("tiny");
  const MicroBatch first = tokens_for(config, kLongShape, 3), second = tokens_for(config, kLongShape, 4);
  ModelRun run(config, kLongShape, kFp32Grads, lively);
  const Outcome alone = run.run(0, 0, first);
  const Outcome other = run.run(0, 1, second);
  EXPECT_NE(alone.loss, other.loss);
  EXPECT_EQ(run.run(7, 5, first), alone);  // and takes nothing from the numbers
}

TEST(Gpt, ComputesTheSameWhateverTheWorld) {
  const ModelConfig config = model_preset("tiny");
  const MicroBatch tokens = tokens_for(config, kLongShape, 3);
  ModelRun alone(config, kLongShape, kFp32Grads, lively, Fill::zero, 1);
  const Outcome expected = alone.run(0, 0, tokens);
  for (const int world : {2, 3, 4, 5, 6, 7, 8}) {
    ModelRun run(config, kLongShape, kFp32Grads, lively, Fill::zero, world);
    EXPECT_EQ(run.run(0, 0, tokens), expected) << world;
  }
}

TEST(Gpt, RefusesTokensThatItDoesNotKnow) {
  ModelConfig config = model_preset("tiny");
  config.vocabulary = 100;
  ModelRun run(config, kLongShape, kFp32Grads, lively);
  MicroBatch tokens = tokens_for(config, kLongShape, 3);
  for (const int32_t wrong : {-1, 100}) {
    tokens.targets.back() = wrong;
    try {
      run.run(0, 0, tokens);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::usage);
    }
  }
}

// Counts what is acquired and held.
class CountingDevice final : public Device {
 public:
  void* allocate(Category category, Bytes bytes) override {
    held[category] += bytes.n;
    return inner_->allocate(category, bytes);
  }
  void release(Category category, void* data, Bytes bytes) noexcept override {
    held[category] -= bytes.n;
    inner_->release(category, data, bytes);
  }
  FarMemory* far_memory() override { return nullptr; }
  std::map<Category, int64_t> held;

 private:
  std::unique_ptr<Device> inner_ = make_host_device(Fill::zero);
};

// Counts calls and elements; computes nothing.
class CountingTable final : public kernels::Table {
 public:
  void run(const kernels::Call& call) override {
    auto& [calls, elements] = counts[std::string(kernels::name_of(call))];
    ++calls;
    elements += kernels::elements_of(call).n;
  }
  using Counts = std::map<std::string, std::pair<int64_t, int64_t>>;
  Counts counts;
};

struct Case {
  ModelConfig config;
  BatchShape shape;
};

std::vector<Case> cases() {
  return {{model_preset("tiny"), {.batch = 3, .sequence = 32}},
          {model_preset("small"), {.batch = 1, .sequence = 256}},
          {{.name = "odd", .layers = 1, .width = 10, .heads = 5, .positions = 3, .vocabulary = 7},
           {.batch = 1, .sequence = 2}}};
}

TEST(Gpt, HoldsTheBuffersOfTheNote) {
  for (const Case& c : cases()) {
    const int64_t r = c.shape.rows(), w = c.config.width, h = c.config.heads, v = c.config.vocabulary;
    const int64_t layers = c.config.layers;
    const int64_t activations =
        (layers + 1) * r * w + layers * r * (15 * w + 2 * h + 4) + r * (w + v + 5) + 1 + 6 * r * w;
    const int64_t image = std::max((v + c.config.positions) * w, 4 * w * w);
    for (const Recipe& recipe : kRecipes) {
      CountingDevice device;
      CountingTable table;
      {
        const auto model = make_model(c.config, c.shape, recipe, 1, device, table);
        EXPECT_EQ(device.held[Category::activations], 4 * activations);
        EXPECT_EQ(device.held[Category::data], 8 * r);
        EXPECT_EQ(device.held[Category::workspace], recipe.grads == Type::f32 ? 0 : 4 * image);
        EXPECT_EQ(device.held.size(), 3U) << "no other category";
      }
      for (const auto& [category, bytes] : device.held) EXPECT_EQ(bytes, 0) << name_of(category);
    }
  }
}

CountingTable::Counts calls_of_the_note(const Case& c, const Recipe& recipe) {
  const int64_t r = c.shape.rows(), w = c.config.width, v = c.config.vocabulary, t = c.shape.sequence;
  const int64_t layers = c.config.layers, rw = r * w;
  const int64_t linears = 12 * layers * w * w + v * w;
  const int64_t scores = c.shape.batch * t * (t + 1) / 2 * w;
  CountingTable::Counts counts{{"embedding", {1, rw}},
                               {"embedding backward", {1, rw}},
                               {"layer norm", {2 * layers + 1, (2 * layers + 1) * rw}},
                               {"layer norm backward", {2 * layers + 1, (2 * layers + 1) * rw}},
                               {"gemm", {3 * (4 * layers + 1), 3 * r * linears}},
                               {"add bias", {4 * layers, 9 * layers * rw}},
                               {"bias backward", {4 * layers, 9 * layers * rw}},
                               {"attention", {layers, layers * scores}},
                               {"attention backward", {layers, layers * scores}},
                               {"gelu", {layers, 4 * layers * rw}},
                               {"gelu backward", {layers, 4 * layers * rw}},
                               {"add", {2 * layers, 2 * layers * rw}},
                               {"cross entropy", {1, r * v}},
                               {"cross entropy backward", {1, r * v}}};
  if (recipe.grads != Type::f32) {
    counts["cast"] = {12 * layers + 5, Layout(model_units(c.config), 1).parameters().n};
  }
  return counts;
}

TEST(Gpt, MakesTheCallsOfTheNote) {
  for (const Case& c : cases()) {
    for (const Recipe& recipe : kRecipes) {
      CountingDevice device;
      CountingTable table;
      const auto model = make_model(c.config, c.shape, recipe, 1, device, table);
      const Layout layout(model_units(c.config), 2);
      const auto acquired = device.held;
      model->begin(0, 0, tokens_for(c.config, c.shape, 1));
      for (const Use& use : uses(layout)) {
        const UnitLayout& unit = layout.unit(use.unit);
        const Surrounded weights(device, Category::params, recipe.params, unit);
        const Surrounded grads(device, Category::grads, recipe.grads, unit);
        if (use.pass == Pass::forward) model->forward(use.unit, weights.whole);
        if (use.pass == Pass::backward) model->backward(use.unit, weights.whole, grads.whole);
      }
      EXPECT_EQ(table.counts, calls_of_the_note(c, recipe)) << c.config.name << ", " << recipe.name;
      for (const auto& [category, bytes] : acquired)
        EXPECT_EQ(device.held[category], bytes) << name_of(category);
    }
  }
}

}  // namespace
}  // namespace zp::test
