// What the checks must catch: stages that are wrong on purpose are refuted by the claim that they offend, by
// name, and none hangs. A mutant that offends one claim leaves the others proved.
#include <gtest/gtest.h>

#include "correctness/mutants/cases.hpp"

namespace zp::mutants {
namespace {

std::string names(const std::set<Claim>& claims) {
  std::string text;
  for (const Claim claim : claims) text += std::string(name_of(claim)) + " ";
  return text;
}

class EveryMutant : public testing::TestWithParam<Case> {};

TEST_P(EveryMutant, IsRefutedByTheClaimsItOffends) {
  const Case& mutant = GetParam();
  const Outcome outcome = run(mutant.mutant);
  ASSERT_TRUE(outcome.result) << outcome.error->what();
  EXPECT_EQ(names(outcome.refuted()), names(mutant.refuted))
      << outcome.evidence(Claim::bits) << outcome.evidence(Claim::bytes) << outcome.evidence(Claim::memory)
      << outcome.evidence(Claim::work);
  const std::string evidence = outcome.evidence(*mutant.refuted.begin());
  EXPECT_NE(evidence.find(mutant.says), std::string::npos) << evidence;
  EXPECT_NE(evidence.find("step "), std::string::npos) << evidence;
  EXPECT_NE(evidence.find(mutant.mutant.stage), std::string::npos) << evidence;
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(all_mutants()),
                         [](const auto& info) { return info.param.mutant.name; });

class EveryEnding : public testing::TestWithParam<Ending> {};

TEST_P(EveryEnding, SaysWhatWentWrong) {
  const auto& [mutant, exit, says] = GetParam();
  const Outcome outcome = run(mutant);
  ASSERT_TRUE(outcome.error);
  const std::string text = outcome.error->what();
  EXPECT_EQ(outcome.error->code(), exit) << text;
  for (const std::string& word : says)
    EXPECT_NE(text.find(word), std::string::npos) << word << " is missing in " << text;
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryEnding, testing::ValuesIn(ending_mutants()),
                         [](const auto& info) { return info.param.mutant.name; });

// The control: the same run without a fault proves everything, in every stage.
TEST(Mutants, ARightStageIsProved) {
  for (const StageRow& row : stages()) {
    const Outcome outcome = run({.name = "Right", .stage = std::string(row.name()), .world = 3});
    ASSERT_TRUE(outcome.result) << outcome.error->what();
    EXPECT_TRUE(outcome.result->proved()) << row.name() << "\n"
                                          << outcome.evidence(Claim::bits) << outcome.evidence(Claim::bytes)
                                          << outcome.evidence(Claim::memory) << outcome.evidence(Claim::work);
  }
}

}  // namespace
}  // namespace zp::mutants
