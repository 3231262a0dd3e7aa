// One step of the reference recomputed in plain loops: initial values, text, average, norm, optimizer,
// synthetic model.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "correctness/trainer/reference_lab.hpp"
#include "harness/layout/layout.hpp"
#include "harness/layout/uses.hpp"
#include "harness/trainer/reference_gpt.hpp"
#include "kernels/adamw.hpp"
#include "kernels/norm.hpp"
#include "kernels/sgd.hpp"

namespace zp {
namespace {

using namespace zp::lab;

ReferenceConfig synthetic(const Recipe& recipe, int micro_batches) {
  ReferenceConfig config = small_gpt(recipe, micro_batches);
  config.model = model_preset("synthetic");
  config.corpus = nullptr;
  return config;
}

// Gradients of one step's micro-batches, one by one, from the parameters as they start.
struct StartGradients {
  std::vector<std::vector<std::vector<float>>> grads;  // [micro-batch][tensor][element]
  std::vector<float> losses;
};

StartGradients gradients_at_start(const ReferenceConfig& config, int step) {
  Lab lab(config);
  Tensors weights, grads;
  for (size_t i = 0; i < lab.tensors.size(); ++i) {
    Buffer weight = lab.parameters(i, config.recipe.params);
    const Elements length = weight.length();
    weights.emplace(lab.tensors[i].name, std::move(weight));
    grads.emplace(lab.tensors[i].name, lab.device->acquire(Category::grads, Type::f32, length));
  }
  const auto gpt =
      make_reference_gpt(config.model, config.shape, config.recipe.grads, *lab.device, *lab.table);
  StartGradients all;
  for (int number = 0; number < config.arithmetic.batching.micro_batches; ++number) {
    all.losses.push_back(gpt->gradient(
        config.corpus->micro_batch(config.seed, step, number, config.shape.batch, config.shape.sequence),
        weights, grads));
    all.grads.emplace_back();
    for (const TensorSpec& tensor : lab.tensors) {
      const View view = grads.at(tensor.name).all();
      const float* begin = view.read<float>();
      all.grads.back().emplace_back(begin, begin + view.length().n);
    }
  }
  return all;
}

// Three micro-batches on one device: [[0+2]+1]/3 with every bracket stored.
TEST(ReferenceStep, AveragesItsMicroBatchesByTheFoldAndStoresWhatTheRecipeStores) {
  for (const Recipe& recipe : kRecipes) {
    const auto config = small_gpt(recipe, 3);
    const Type type = recipe.grads;
    const auto first = gradients_at_start(config, 0);
    Lab lab(config);
    const auto step = lab.step();
    double loss = 0.0;
    for (const float of_micro_batch : first.losses) loss += static_cast<double>(of_micro_batch);
    EXPECT_EQ(loss_of(step), loss / 3.0);
    for (size_t i = 0; i < lab.tensors.size(); ++i) {
      const auto got = lab.values(HashKind::grad, i, type);
      for (size_t e = 0; e < got.size(); ++e) {
        const auto grad = [&](size_t number) { return stored(first.grads[number][i][e], type); };
        const float sum = stored(stored(grad(0) + grad(2), type) + grad(1), type);
        ASSERT_EQ(got[e], stored(sum / 3.0F, type)) << lab.tensors[i].name << " " << e;
      }
    }
  }
}

// [[0+1]+2]/3.
TEST(ReferenceStep, AddsItsMicroBatchesInTurnWhereThatIsAskedFor) {
  for (const Recipe& recipe : kRecipes) {
    auto config = small_gpt(recipe, 3);
    const Type type = recipe.grads;
    const auto first = gradients_at_start(config, 0);
    config.arithmetic.batching.accumulate = Accumulate::sequential;
    Lab lab(config);
    lab.step();
    for (size_t i = 0; i < lab.tensors.size(); ++i) {
      const auto got = lab.values(HashKind::grad, i, type);
      for (size_t e = 0; e < got.size(); ++e) {
        const auto grad = [&](size_t number) { return stored(first.grads[number][i][e], type); };
        const float sum = stored(stored(grad(0) + grad(1), type) + grad(2), type);
        ASSERT_EQ(got[e], stored(sum / 3.0F, type)) << lab.tensors[i].name << " " << e;
      }
    }
  }
}

TEST(ReferenceStep, HashesEveryMicroBatchsStoredGradient) {
  for (const Recipe& recipe : kRecipes) {
    const auto config = small_gpt(recipe, 3);
    const auto first = gradients_at_start(config, 0);
    Lab lab(config);
    const auto step = lab.step();
    ASSERT_EQ(step.micro_batch_grads.size(), 3U);
    for (size_t number = 0; number < 3; ++number) {
      HashSum expected;
      int64_t logical = 0;
      for (const auto& tensor : first.grads[number]) {
        std::vector<uint32_t> bits;
        bits.reserve(tensor.size());
        for (const float x : tensor) {
          bits.push_back(recipe.grads == Type::bf16 ? round_to_bf16(x).bits : std::bit_cast<uint32_t>(x));
        }
        expected += hash_of(HashKind::grad, logical, bits);
        logical += static_cast<int64_t>(tensor.size());
      }
      EXPECT_EQ(step.micro_batch_grads[number], expected) << number;
    }
  }
}

// Squares in blocks of 64 over each unit's tensors side by side, and two steps of AdamW, in plain loops.
void check_norm_and_update(const Recipe& recipe, Method method) {
  auto config = small_gpt(recipe, 2);
  config.optimizer = method;
  config.momentum = 0.75F;
  config.clip = 0.05;
  const HashKind exact = exact_kind(recipe);
  Lab lab(config);
  std::vector<std::vector<float>> master, m, v;
  for (size_t i = 0; i < lab.tensors.size(); ++i) {
    master.push_back(lab.values(exact, i, Type::f32));
    m.emplace_back(master.back().size(), 0.0F);
    v.emplace_back(master.back().size(), 0.0F);
  }
  for (const double powers : {1.0, 2.0}) {
    const auto step = lab.step();
    ExactSum squares;
    size_t tensor = 0;
    for (const UnitSpec& unit : model_units(config.model)) {
      std::vector<float> image;
      for (size_t end = tensor + unit.tensors.size(); tensor < end; ++tensor) {
        const auto part = lab.values(HashKind::grad, tensor, Type::f32);
        image.insert(image.end(), part.begin(), part.end());
      }
      for (size_t begin = 0; begin < image.size(); begin += 64) {
        double block = 0.0;
        for (size_t e = begin; e < std::min(begin + 64, image.size()); ++e) {
          block += static_cast<double>(image[e]) * static_cast<double>(image[e]);
        }
        squares.add(block);
      }
    }
    const double norm = std::sqrt(squares.value());
    EXPECT_EQ(std::bit_cast<double>(step.norm_bits), norm);
    ASSERT_GT(norm, config.clip);
    AdamWNumbers numbers;
    numbers.clip = static_cast<float>(config.clip / norm);
    numbers.lr = config.lr;
    numbers.beta1 = config.beta1;
    numbers.beta2 = config.beta2;
    numbers.epsilon = config.epsilon;
    const auto beta1 = static_cast<double>(config.beta1), beta2 = static_cast<double>(config.beta2);
    numbers.correction1 = static_cast<float>(1.0 - (powers == 1.0 ? beta1 : beta1 * beta1));
    numbers.correction2 = static_cast<float>(1.0 - (powers == 1.0 ? beta2 : beta2 * beta2));
    for (size_t i = 0; i < lab.tensors.size(); ++i) {
      numbers.decay = lab.tensors[i].shape.size() > 1 ? config.weight_decay : 0.0F;
      const auto grads = lab.values(HashKind::grad, i, Type::f32);
      for (size_t e = 0; e < grads.size(); ++e) {
        const SgdNumbers sgd{
            .clip = numbers.clip, .lr = config.lr, .momentum = config.momentum, .decay = numbers.decay};
        if (method == Method::adamw) adamw_element(numbers, grads[e], master[i][e], m[i][e], v[i][e]);
        if (method == Method::sgd) sgd_element(sgd, grads[e], master[i][e], m[i][e]);
      }
      EXPECT_EQ(lab.values(exact, i, Type::f32), master[i]) << lab.tensors[i].name;
      EXPECT_EQ(lab.values(HashKind::m, i, Type::f32), m[i]);
      if (method == Method::sgd) {
        EXPECT_EQ(step.v[i], HashSum{}) << "a hash of nothing";
        EXPECT_THROW(lab.reference->bits(HashKind::v, static_cast<int>(i)), Error);
        continue;
      }
      EXPECT_EQ(lab.values(HashKind::v, i, Type::f32), v[i]);
    }
  }
}

TEST(ReferenceStep, TakesTheNormOverUnitsAndUpdatesByTheFormula) {
  for (const Recipe& recipe : {kFp32Grads, kFp32}) {
    for (const Method method : kMethods) check_norm_and_update(recipe, method);
  }
}

TEST(ReferenceStep, IsExactOnTheSyntheticModel) {
  for (const Recipe& recipe : kRecipes) {
    const auto config = synthetic(recipe, 4);
    Lab lab(config);
    const auto step = lab.step();
    double loss = 0.0;
    for (int number = 0; number < 4; ++number)
      loss += static_cast<double>(synthetic_loss(config.seed, 0, number));
    EXPECT_EQ(loss_of(step), loss / 4.0);
    double squares = 0.0;  // of multiples of 1/32, so every sum is exact
    for (size_t i = 0; i < lab.tensors.size(); ++i) {
      for (const float g : lab.values(HashKind::grad, i, recipe.grads)) {
        EXPECT_EQ(g * 32.0F, std::floor(g * 32.0F));
        squares += static_cast<double>(g) * static_cast<double>(g);
      }
    }
    EXPECT_GT(squares, 0.0);
    EXPECT_EQ(std::bit_cast<double>(step.norm_bits), std::sqrt(squares));
    auto other = config;
    other.arithmetic.batching.world = 4;
    other.arithmetic.reduction = Reduction::every_micro_step;
    EXPECT_EQ(Lab(other).step().params, step.params);
  }
}

// The two GPTs are written apart; what they share is kernels and names.
TEST(ReferenceStep, EndsOnTheGradientsAndLossesOfTheModelThatStagesRun) {
  for (const Recipe& recipe : kRecipes) {
    const auto config = small_gpt(recipe, 3);
    Lab lab(config);
    const Layout layout(model_units(config.model), 1);
    std::vector<Buffer> weights, grads;
    for (const UnitLayout& unit : layout.units()) {
      weights.push_back(lab.device->acquire(Category::params, recipe.params, unit.padded));
      grads.push_back(lab.device->acquire(Category::grads, recipe.grads, unit.padded));
      for (const TensorLayout& tensor : unit.tensors) {
        const Buffer from = lab.parameters(static_cast<size_t>(tensor.index), recipe.params);
        lab.table->run(kernels::Cast{.from = from.all(), .to = weights.back().part(tensor.in_unit)});
      }
    }
    const auto model = make_model(config.model, config.shape, recipe, config.seed, *lab.device, *lab.table);
    std::vector<HashSum> hashes;
    double loss = 0.0;
    for (int number = 0; number < 3; ++number) {
      const auto& shape = config.shape;
      model->begin(0, number, corpus().micro_batch(config.seed, 0, number, shape.batch, shape.sequence));
      for (const Use& use : uses(layout)) {
        const auto unit = static_cast<size_t>(use.unit);
        if (use.pass == Pass::forward) model->forward(use.unit, weights[unit].all());
        if (use.pass == Pass::backward) model->backward(use.unit, weights[unit].all(), grads[unit].all());
      }
      loss += static_cast<double>(model->loss());
      hashes.emplace_back();
      for (const UnitLayout& unit : layout.units()) {
        kernels::HashRun call;
        call.x = grads[static_cast<size_t>(unit.index)].part({{0}, unit.length});
        call.kind = HashKind::grad;
        call.logical = unit.logical_begin.n;
        call.sum = &hashes.back();
        lab.table->run(call);
      }
    }
    const auto step = lab.step();
    EXPECT_EQ(step.micro_batch_grads, hashes) << recipe.name;
    EXPECT_EQ(loss_of(step), loss / 3.0) << recipe.name;
  }
}

TEST(ReferenceStep, NumbersTheSyntheticGradientOverTheWholeModelAndStep) {
  auto config = synthetic(kFp32Grads, 1);
  Lab lab(config);
  int64_t parameters = 0;
  for (const TensorSpec& tensor : lab.tensors) parameters += element_count(tensor).n;
  const Buffer whole = lab.device->acquire(Category::grads, Type::f32, {parameters});
  for (int step = 0; step < 2; ++step) {
    lab.step();
    kernels::SyntheticGradient call;
    call.grads = whole.all();
    call.key = synthetic_key(config.seed, step, 0);
    lab.table->run(call);
    const float* expected = whole.all().read<float>();
    for (size_t i = 0; i < lab.tensors.size(); ++i) {
      const auto got = lab.values(HashKind::grad, i, Type::f32);
      EXPECT_TRUE(std::equal(got.begin(), got.end(), expected))
          << "step " << step << ", " << lab.tensors[i].name;
      expected += got.size();
    }
  }
}

TEST(ReferenceStep, StartsFromValuesOfSeedAndTensor) {
  for (const Recipe& recipe : {kFp32Grads, kFp32}) {
    auto config = small_gpt(recipe, 1);
    Lab lab(config);
    for (size_t i = 0; i < lab.tensors.size(); ++i) {
      const TensorSpec& tensor = lab.tensors[i];
      const Buffer start = lab.device->acquire(Category::params, Type::f32, element_count(tensor));
      kernels::Initialize call;
      call.x = start.all();
      call.init = tensor.init;
      call.scale = tensor.scale;
      call.key = init_key(config.seed, tensor.name);
      lab.table->run(call);
      const auto got = lab.values(exact_kind(recipe), i, Type::f32);
      EXPECT_TRUE(std::equal(got.begin(), got.end(), start.all().read<float>())) << tensor.name;
    }
  }
}

// With a learning rate of zero only the text differs between steps.
TEST(ReferenceStep, ReadsTheTextOfItsStep) {
  auto config = small_gpt(kFp32Grads, 2);
  config.lr = 0.0F;
  Lab lab(config);
  for (int step = 0; step < 3; ++step) {
    const auto first = gradients_at_start(config, step);
    const double loss = (static_cast<double>(first.losses[0]) + static_cast<double>(first.losses[1])) / 2.0;
    EXPECT_EQ(loss_of(lab.step()), loss) << step;
  }
}

}  // namespace
}  // namespace zp
