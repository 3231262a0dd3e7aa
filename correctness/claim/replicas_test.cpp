// What ranks hold whole is compared by the function by which the reference hashed it.
#include <gtest/gtest.h>

#include <memory>

#include "correctness/claim/lies.hpp"
#include "correctness/claim/made_evidence.hpp"
#include "harness/theory/stages.hpp"

namespace zp {
namespace {

std::unique_ptr<MadeRun> made(const theory::Stage& stage, HashFunction of_replicas) {
  return std::make_unique<MadeRun>(stage, 4, 2, Algorithm::halving, kRecipes.front(), Method::adamw,
                                   of_replicas);
}

Finding judged(const MadeRun& run) { return judge_bits(run.facts, run.reference, run.ranks).finding; }

// As a golden file is: it holds no replica hashes, and ranks hash what they hold whole as they hash slices.
TEST(Replicas, AreJudgedByAReferenceWithoutReplicaHashes) {
  for (const theory::Stage& stage : theory::kStages) {
    const auto run = made(stage, HashFunction::state);
    ASSERT_FALSE(run->reference.replicas);
    EXPECT_EQ(judged(*run), Finding::proved);
    EXPECT_FALSE(first_suspect(run->facts, run->reference, run->ranks).found);
    flip(run->ranks[2].used.back().hash);
    EXPECT_EQ(judged(*run), Finding::refuted);
  }
}

TEST(Replicas, AreRefutedWhereTheyWereHashedByAnotherFunction) {
  for (const theory::Stage& stage : theory::kStages) {
    const auto run = made(stage, HashFunction::state);
    run->reference = made(stage, HashFunction::replica)->reference;
    EXPECT_EQ(judged(*run), Finding::refuted);
    EXPECT_EQ(hash_of_replicas(run->reference), HashFunction::replica);
  }
}

}  // namespace
}  // namespace zp
