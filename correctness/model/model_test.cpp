// Presets, the tensors of a GPT and their initial values, and refusals of numbers that make no model.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harness/model/model.hpp"

namespace zp::test {
namespace {

TEST(Presets, SmallHasTheParametersThatItPromises) {
  EXPECT_EQ(Layout(model_units(model_preset("small")), 1).parameters(), Elements{10942464});
}

TEST(Presets, Gpt2HasTheParametersThatItIsKnownFor) {
  const ModelConfig config = model_preset("gpt2");
  EXPECT_EQ(Layout(model_units(config), 1).parameters(), Elements{124439808});
  EXPECT_EQ(config.vocabulary, 50257);
  EXPECT_TRUE(config.tied);
}

TEST(Presets, TinyCutsUnevenlyInEveryWorld) {
  for (int world = 1; world <= 8; ++world) {
    const Layout layout(model_units(model_preset("tiny")), world);
    for (const UnitLayout& unit : layout.units())
      EXPECT_LT(unit.length, unit.padded) << unit.name << " " << world;
  }
}

TEST(Presets, AnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    model_preset("gpt9");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::usage);
    EXPECT_STREQ(error.what(), "model \"gpt9\" is unknown; there are tiny, small, gpt2, synthetic");
  }
}

TEST(Units, NameEveryTensorOnceInForwardOrder) {
  const std::vector<UnitSpec> units = model_units(model_preset("tiny"));
  ASSERT_EQ(units.size(), 5U);
  EXPECT_EQ(units[0].name, "embeddings");
  EXPECT_EQ(units[1].name, "block.0");
  EXPECT_EQ(units[3].name, "block.2");
  EXPECT_EQ(units[4].name, "head");
  const char* const in_block[] = {"norm1.weight", "norm1.bias", "qkv.weight",   "qkv.bias",
                                  "out.weight",   "out.bias",   "norm2.weight", "norm2.bias",
                                  "up.weight",    "up.bias",    "down.weight",  "down.bias"};
  for (size_t i = 0; i < 12; ++i)
    EXPECT_EQ(units[2].tensors.at(i).name, std::string("block.1.") + in_block[i]);
  EXPECT_EQ(units[2].tensors[2].shape, (std::vector<int64_t>{135, 45}));
  EXPECT_EQ(units[2].tensors[10].shape, (std::vector<int64_t>{45, 180}));
  std::set<std::string> names;
  std::set<uint64_t> keys;
  size_t tensors = 0;
  for (const UnitSpec& unit : units) {
    for (const TensorSpec& tensor : unit.tensors) {
      ++tensors;
      names.insert(tensor.name);
      keys.insert(init_key(1, tensor.name));
      keys.insert(init_key(2, tensor.name));
    }
  }
  EXPECT_EQ(names.size(), tensors);
  EXPECT_EQ(keys.size(), 2 * tensors);
}

TEST(Units, OfATiedModelHaveOneTokenTable) {
  ModelConfig config = model_preset("tiny");
  config.tied = true;
  const std::vector<UnitSpec> units = model_units(config);
  EXPECT_EQ(units.back().borrows, 0);
  EXPECT_EQ(units.back().tensors.size(), 2U);
  EXPECT_EQ(Layout(units, 1).parameters(), Elements{99225 - 256 * 45});
}

TEST(Units, HoldAsManyBlocksAsAreAskedFor) {
  ModelConfig config = model_preset("tiny");
  config.unit_blocks = 2;
  config.frozen = {"blocks.0-1"};
  const std::vector<UnitSpec> units = model_units(config);
  ASSERT_EQ(units.size(), 4U);
  EXPECT_EQ(units[1].name, "blocks.0-1");
  EXPECT_EQ(units[1].tensors.size(), 24U);
  EXPECT_EQ(units[1].tensors[12].name, "block.1.norm1.weight");
  EXPECT_EQ(units[2].name, "block.2");
  EXPECT_EQ(Layout(units, 1).parameters(), Elements{99225}) << "no tensor is lost or made";
  EXPECT_EQ(frozen_parts(config), (std::vector<bool>{false, true, true, false, false}));
}

TEST(Units, StartWithTheValuesOfGpt2) {
  const ModelConfig config = model_preset("small");
  for (const UnitSpec& unit : model_units(config)) {
    for (const TensorSpec& tensor : unit.tensors) {
      const auto has = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
      if (!decays(tensor)) {
        EXPECT_EQ(tensor.init, has("norm") && has(".weight") ? Init::ones : Init::zeros) << tensor.name;
        continue;
      }
      EXPECT_EQ(tensor.init, Init::normal) << tensor.name;
      const bool into_stream = has(".out.") || has(".down.");
      EXPECT_FLOAT_EQ(tensor.scale, into_stream ? 0.02F / std::sqrt(12.0F) : 0.02F) << tensor.name;
    }
  }
}

// A configuration, changed, is refused with a line that says `words`.
template <class Change>
void expect_refused(Change change, const std::string& words) {
  ModelConfig config = model_preset("tiny");
  change(config);
  try {
    check_model(config);
    ADD_FAILURE() << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::usage);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
  EXPECT_THROW(model_units(config), Error);
}

TEST(CheckModel, RefusesNumbersThatMakeNoModel) {
  expect_refused([](ModelConfig& c) { c.heads = 4; }, "4 heads do not divide width 45");
  expect_refused([](ModelConfig& c) { c.heads = 0; }, "heads is 0; it must lie in 1");
  expect_refused([](ModelConfig& c) { c.heads = 90; }, "heads is 90");
  expect_refused([](ModelConfig& c) { c.layers = 0; }, "layers is 0");
  expect_refused([](ModelConfig& c) { c.layers = INT64_MAX; }, "layers is 9223372036854775807");
  expect_refused([](ModelConfig& c) { c.width = -45; }, "width is -45");
  // One element less its mean is zero: no token would reach the head, and no gradient come back.
  expect_refused([](ModelConfig& c) { c.width = c.heads = 1; }, "width is 1; it must lie in 2");
  expect_refused([](ModelConfig& c) { c.positions = 0; }, "positions is 0");
  expect_refused([](ModelConfig& c) { c.vocabulary = 1; }, "vocabulary is 1");
  expect_refused([](ModelConfig& c) { c.unit_blocks = 4; }, "blocks in a unit is 4; it must lie in 1 … 3");
  expect_refused([](ModelConfig& c) { c.frozen = {"tail"}; }, "has no unit \"tail\" to freeze");
}

class NoKernels final : public kernels::Table {
 public:
  void run(const kernels::Call&) override {}
};

TEST(MakeModel, RefusesABatchThatDoesNotFitTheModel) {
  const auto device = make_host_device(Fill::zero);
  NoKernels kernels;
  const ModelConfig config = model_preset("tiny");
  const auto make = [&](BatchShape shape) { make_model(config, shape, kRecipes[0], 1, *device, kernels); };
  EXPECT_NO_THROW(make({.batch = 1, .sequence = 32}));
  EXPECT_THROW(make({.batch = 1, .sequence = 33}), Error);
  EXPECT_THROW(make({.batch = 1, .sequence = 0}), Error);
  EXPECT_THROW(make({.batch = 0, .sequence = 8}), Error);
  EXPECT_THROW(make({.batch = -1, .sequence = 8}), Error);
}

TEST(MakeModel, AUnitsViewMustHoldItsTensorsInTheRecipesType) {
  const auto device = make_host_device(Fill::zero);
  NoKernels kernels;
  for (const char* name : {"tiny", "synthetic"}) {
    const auto model =
        make_model(model_preset(name), {.batch = 1, .sequence = 4}, kRecipes[0], 1, *device, kernels);
    const Elements length = Layout(model_units(model_preset(name)), 1).unit(1).length;
    const Buffer short_one = device->acquire(Category::params, Type::bf16, length - Elements{1});
    const Buffer wrong_type = device->acquire(Category::params, Type::f32, length);
    const Buffer right = device->acquire(Category::params, Type::bf16, length);
    EXPECT_THROW(model->forward(1, short_one.all()), Error) << name;
    EXPECT_THROW(model->forward(1, wrong_type.all()), Error) << name;
    EXPECT_THROW(model->backward(1, right.all(), right.all()), Error) << name;
    EXPECT_NO_THROW(model->forward(1, right.all())) << name;
    EXPECT_NO_THROW(model->backward(1, right.all(), wrong_type.all())) << name;
    EXPECT_THROW(model->forward(-1, right.all()), Error) << name;
    EXPECT_THROW(model->forward(9, right.all()), Error) << name;
  }
}

}  // namespace
}  // namespace zp::test
