// The reference as a whole: what it averages and updates, what its hashes cover, and what moves them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "harness/base/archive.hpp"
#include "harness/trainer/reference.hpp"
#include "harness/trainer/reference_gpt.hpp"
#include "kernels/adamw.hpp"
#include "kernels/norm.hpp"

namespace zp {
namespace {

constexpr int64_t kVocabulary = 29;
constexpr Recipe kFp32Grads = kRecipes[0], kBf16Grads = kRecipes[1];

const Corpus& corpus() {
  static const Corpus text = Corpus::synthetic(5, 4000, kVocabulary);
  return text;
}

Arithmetic alone(int micro_batches, Type grads) {
  return {Reduction::after_accumulation, {1, micro_batches}, Algorithm::direct, grads};
}

ReferenceConfig small_gpt(const Recipe& recipe, int micro_batches) {
  ReferenceConfig config;
  config.model.name = "test";
  config.model.layers = 2;
  config.model.width = 20;
  config.model.heads = 2;
  config.model.positions = 12;
  config.model.vocabulary = kVocabulary;
  config.shape = {.batch = 2, .sequence = 11};
  config.recipe = recipe;
  config.arithmetic = alone(micro_batches, recipe.grads);
  config.seed = 3;
  config.clip = 0.0;
  config.lr = 1e-2F;
  config.beta1 = 0.9F;
  config.beta2 = 0.95F;
  config.epsilon = 1e-8F;
  config.weight_decay = 0.1F;
  config.corpus = &corpus();
  return config;
}

ReferenceConfig synthetic(const Recipe& recipe, int micro_batches) {
  ReferenceConfig config = small_gpt(recipe, micro_batches);
  config.model = model_preset("synthetic");
  config.corpus = nullptr;
  return config;
}

// A device, a table and a reference that live together.
struct Lab {
  explicit Lab(const ReferenceConfig& config, int threads = 1, Fill fill = Fill::nan)
      : device(make_host_device(fill)),
        table(make_table(*device, config, threads)),
        reference(make_reference(config, *device, *table)) {
    for (const UnitSpec& unit : model_units(config.model)) {
      tensors.insert(tensors.end(), unit.tensors.begin(), unit.tensors.end());
    }
  }

  static std::unique_ptr<kernels::Table> make_table(Device& device, const ReferenceConfig& config,
                                                    int threads) {
    kernels::HostOptions options;
    options.threads = threads;
    options.max_sequence = std::max<int64_t>(1, config.shape.sequence);
    return kernels::make_host_table(device, options);
  }

  ReferenceStep step() {
    return reference->step([] {});
  }

  std::vector<ReferenceStep> steps(int count) {
    std::vector<ReferenceStep> all;
    for (int i = 0; i < count; ++i) all.push_back(step());
    return all;
  }

  std::vector<float> values(HashKind kind, size_t tensor, Type type) const {
    std::vector<float> out;
    for (const uint32_t bits : reference->bits(kind, static_cast<int>(tensor))) {
      out.push_back(type == Type::bf16 ? widen(bf16{static_cast<uint16_t>(bits)})
                                       : std::bit_cast<float>(bits));
    }
    return out;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<kernels::Table> table;
  std::unique_ptr<Reference> reference;
  std::vector<TensorSpec> tensors;  // by index over the whole model
};

std::string bytes_of(const std::vector<ReferenceStep>& steps) { return to_bytes(steps); }
std::string bytes_of(const ReferenceConfig& config, int steps) { return bytes_of(Lab(config).steps(steps)); }

double loss_of(const ReferenceStep& step) { return std::bit_cast<double>(step.loss_bits); }

TEST(Reference, LearnsWithinTwentySteps) {
  for (const Recipe& recipe : kRecipes) {
    const auto steps = Lab(small_gpt(recipe, 4)).steps(20);
    EXPECT_NEAR(loss_of(steps.front()), std::log(kVocabulary),
                0.5);  // knows nothing yet: about log(vocabulary)
    EXPECT_LT(loss_of(steps.back()), loss_of(steps.front()) - 0.3) << recipe.name;
  }
}

TEST(Reference, LeavesTheSameHashesTwiceWithAnyThreadsAndAnyFreshMemory) {
  for (const Recipe& recipe : kRecipes) {
    const auto config = small_gpt(recipe, 3);
    const std::string once = bytes_of(Lab(config).steps(3));
    EXPECT_EQ(once, bytes_of(Lab(config).steps(3)));
    EXPECT_EQ(once, bytes_of(Lab(config, 3, Fill::zero).steps(3)));
  }
}

HashSum hash_of(HashKind kind, int64_t logical, const std::vector<uint32_t>& bits) {
  HashSum sum;
  for (size_t i = 0; i < bits.size(); ++i) {
    const auto index = (static_cast<uint64_t>(kind) << 48) + static_cast<uint64_t>(logical) + i;
    sum += hash_element(index, bits[i]);
  }
  return sum;
}

TEST(Reference, HashesTheBitsThatItShows) {
  for (const Recipe& recipe : kRecipes) {
    Lab lab(small_gpt(recipe, 2));
    const auto check = [&](const std::vector<HashSum>& hashes, HashKind kind) {
      int64_t logical = 0;
      ASSERT_EQ(hashes.size(), lab.tensors.size());
      for (size_t i = 0; i < hashes.size(); ++i) {
        const auto bits = lab.reference->bits(kind, static_cast<int>(i));
        EXPECT_EQ(hashes[i], hash_of(kind, logical, bits)) << lab.tensors[i].name;
        logical += element_count(lab.tensors[i]).n;
      }
    };
    lab.step();
    const auto step = lab.step();
    check(step.params, HashKind::param);
    check(step.master, HashKind::master);
    check(step.m, HashKind::m);
    check(step.v, HashKind::v);
    check(step.grads, HashKind::grad);
    EXPECT_EQ(lab.step().params_before, step.params);
  }
}

TEST(Reference, HoldsParametersThatAreItsRoundedMasters) {
  Lab lab(small_gpt(kFp32Grads, 2));
  lab.step();
  for (size_t i = 0; i < lab.tensors.size(); ++i) {
    const auto params = lab.reference->bits(HashKind::param, static_cast<int>(i));
    const auto masters = lab.values(HashKind::master, i, Type::f32);
    for (size_t e = 0; e < params.size(); ++e) ASSERT_EQ(params[e], round_to_bf16(masters[e]).bits);
  }
}

TEST(Reference, MovesItsHashesWithSeedClipAndMicroBatches) {
  auto config = small_gpt(kFp32Grads, 4);
  const std::string plain = bytes_of(config, 2);
  const double norm = std::bit_cast<double>(Lab(config).step().norm_bits);
  config.clip = 4.0 * norm;
  EXPECT_EQ(bytes_of(config, 1),
            bytes_of(small_gpt(kFp32Grads, 4), 1));  // a clip that never acts changes nothing
  config.clip = norm / 4.0;
  EXPECT_NE(bytes_of(config, 2), plain);
  config = small_gpt(kFp32Grads, 4);
  config.seed = 4;
  EXPECT_NE(bytes_of(config, 2), plain);
  EXPECT_NE(Lab(small_gpt(kFp32Grads, 5)).step().params, Lab(small_gpt(kFp32Grads, 4)).step().params);
}

TEST(Reference, ReportsEveryMicroBatch) {
  Lab lab(small_gpt(kFp32Grads, 5));
  int reports = 0;
  lab.reference->step([&] { ++reports; });
  EXPECT_EQ(reports, 5);
  lab.reference->step([&] { ++reports; });
  EXPECT_EQ(reports, 10);
}

// Gradients of the first step's micro-batches, one by one, from the parameters as they start.
// [micro-batch][tensor]
struct FirstGradients {
  std::vector<std::vector<std::vector<float>>> grads;
  std::vector<float> losses;
};

FirstGradients first_gradients(const ReferenceConfig& config) {
  Lab lab(config);
  Tensors weights, grads;
  for (size_t i = 0; i < lab.tensors.size(); ++i) {
    const auto bits = lab.reference->bits(HashKind::param, static_cast<int>(i));
    const Elements length{static_cast<int64_t>(bits.size())};
    Buffer weight = lab.device->acquire(Category::params, Type::bf16, length);
    for (size_t e = 0; e < bits.size(); ++e) {
      weight.all().write<bf16>()[e] = bf16{static_cast<uint16_t>(bits[e])};
    }
    weights.emplace(lab.tensors[i].name, std::move(weight));
    grads.emplace(lab.tensors[i].name, lab.device->acquire(Category::grads, Type::f32, length));
  }
  const auto gpt = make_reference_gpt(config.model, config.shape, *lab.device, *lab.table);
  FirstGradients all;
  for (int number = 0; number < config.arithmetic.batching.micro_batches; ++number) {
    all.losses.push_back(gpt->gradient(
        config.corpus->micro_batch(config.seed, 0, number, config.shape.batch, config.shape.sequence),
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

float stored(float x, Type type) { return type == Type::bf16 ? widen(round_to_bf16(x)) : x; }

// Three micro-batches on one device: [[0+2]+1]/3 with every bracket stored.
TEST(Reference, AveragesItsMicroBatchesByTheFoldAndStoresWhatTheRecipeStores) {
  for (const Recipe& recipe : kRecipes) {
    const auto config = small_gpt(recipe, 3);
    const Type type = recipe.grads;
    const auto first = first_gradients(config);
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

TEST(Reference, HashesEveryMicroBatchsStoredGradient) {
  for (const Recipe& recipe : kRecipes) {
    const auto config = small_gpt(recipe, 3);
    const auto first = first_gradients(config);
    Lab lab(config);
    const auto step = lab.step();
    ASSERT_EQ(step.micro_batch_grads.size(), 3U);
    for (size_t number = 0; number < 3; ++number) {
      HashSum expected;
      int64_t logical = 0;
      for (const auto& tensor : first.grads[number]) {
        std::vector<uint32_t> bits;
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
TEST(Reference, TakesTheNormOverUnitsAndUpdatesByTheFormula) {
  auto config = small_gpt(kFp32Grads, 2);
  config.clip = 0.05;
  Lab lab(config);
  std::vector<std::vector<float>> master, m, v;
  for (size_t i = 0; i < lab.tensors.size(); ++i) {
    master.push_back(lab.values(HashKind::master, i, Type::f32));
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
      for (size_t e = 0; e < grads.size(); ++e)
        adamw_element(numbers, grads[e], master[i][e], m[i][e], v[i][e]);
      EXPECT_EQ(lab.values(HashKind::master, i, Type::f32), master[i]) << lab.tensors[i].name;
      EXPECT_EQ(lab.values(HashKind::m, i, Type::f32), m[i]);
      EXPECT_EQ(lab.values(HashKind::v, i, Type::f32), v[i]);
    }
  }
}

TEST(Reference, AddsAndRoundsWhereItsArithmeticSays) {
  const auto with = [](const Recipe& recipe, Reduction reduction, Batching batching, Algorithm algorithm) {
    auto config = small_gpt(recipe, batching.micro_batches);
    config.arithmetic = {reduction, batching, algorithm, recipe.grads};
    return Lab(config).step();
  };
  const auto after = Reduction::after_accumulation, every = Reduction::every_micro_step;
  const auto direct = Algorithm::direct, halving = Algorithm::halving;
  // fp32: one device and powers of two agree, N = 3 with A = 2 does not.
  const auto one = with(kFp32Grads, after, {1, 6}, direct);
  EXPECT_EQ(with(kFp32Grads, after, {2, 6}, halving).params, one.params);
  EXPECT_EQ(with(kFp32Grads, every, {3, 6}, direct).grads, one.grads);
  EXPECT_NE(with(kFp32Grads, after, {3, 6}, direct).grads, one.grads);
  EXPECT_EQ(with(kFp32Grads, after, {3, 6}, direct).micro_batch_grads, one.micro_batch_grads);
  // bf16: where sums are rounded shows.
  const auto four = with(kBf16Grads, after, {4, 4}, direct);
  EXPECT_EQ(with(kBf16Grads, every, {4, 4}, direct).grads, four.grads);
  EXPECT_NE(with(kBf16Grads, after, {4, 4}, halving).grads, four.grads);
  EXPECT_NE(with(kBf16Grads, after, {2, 4}, direct).grads, four.grads);
}

TEST(Reference, IsExactOnTheSyntheticModel) {
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

TEST(Reference, FailsOnStateThatIsNotFiniteNamingStepAndTensor) {
  auto config = small_gpt(kFp32Grads, 2);
  config.lr = 3e38F;
  config.weight_decay = 3e38F;
  Lab lab(config);
  try {
    lab.steps(3);
    FAIL() << "an infinite parameter went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bits);
    const std::string message = error.what();
    EXPECT_NE(message.find("step 0"), std::string::npos) << message;
    EXPECT_NE(message.find("embeddings.token.weight"), std::string::npos) << message;
  }
}

TEST(Reference, RefusesAnArithmeticOfOtherGradientsAndAGptWithoutText) {
  auto config = small_gpt(kFp32Grads, 2);
  config.arithmetic.grads = Type::bf16;
  EXPECT_THROW(Lab{config}, Error);
  config = small_gpt(kFp32Grads, 2);
  config.corpus = nullptr;
  EXPECT_THROW(Lab{config}, Error);
}

}  // namespace
}  // namespace zp
