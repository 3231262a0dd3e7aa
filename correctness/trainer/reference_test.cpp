// The reference as a whole: that it learns and repeats, what its hashes cover and what moves them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "correctness/trainer/reference_lab.hpp"
#include "harness/base/archive.hpp"

namespace zp {
namespace {

using namespace zp::lab;

std::string bytes_of(const std::vector<ReferenceStep>& steps) { return to_bytes(steps); }
std::string bytes_of(const ReferenceConfig& config, int steps) { return bytes_of(Lab(config).steps(steps)); }

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
    if (has_master(recipe)) {
      check(step.master, HashKind::master);
    } else {
      EXPECT_EQ(step.master, std::vector<HashSum>(step.params.size())) << "a hash of nothing";
      EXPECT_THROW(lab.reference->bits(HashKind::master, 0), Error);
    }
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
