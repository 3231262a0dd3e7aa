// Random configurations hold their claims, every mutant is found by them, and what fails is shown at its
// simplest. As a test a hundred of them; by hand, with --seed S --count K, as many as one likes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "correctness/mutants/cases.hpp"
#include "correctness/random/search.hpp"
#include "harness/report/progress.hpp"
#include "harness/suite/number_text.hpp"

namespace zp::drawn {
namespace {

using mutants::Case;
using mutants::Outcome;
using mutants::Trial;

constexpr uint64_t kSeed = 1;
constexpr int kTested = 100;
constexpr int kParts = 5;  // tests run beside each other

// ---- What is drawn

TEST(RandomConfigurations, TakeEveryValueOfEveryAxisInTheFirstHundred) {
  std::map<std::string, std::set<std::string>> seen;
  for (uint64_t i = 0; i < kTested; ++i) {
    for (const auto& [axis, value] : draw(kSeed, i)) seen[axis].insert(value);
  }
  for (const Axis& axis : axes()) {
    for (const std::string& value : axis.values)
      EXPECT_TRUE(seen[axis.name].contains(value)) << axis.name << " '" << value << "' is never drawn";
  }
}

TEST(RandomConfigurations, DependOnSeedAndNumberAlone) {
  EXPECT_EQ(draw(3, 5), draw(3, 5));
  EXPECT_NE(draw(3, 5), draw(3, 6));
  EXPECT_NE(draw(3, 5), draw(4, 5));
}

// ---- What they show

class Tested : public testing::TestWithParam<int> {};

TEST_P(Tested, HoldsItsClaims) {
  for (int i = GetParam(); i < kTested; i += kParts) {
    const Configuration configuration = draw(kSeed, static_cast<uint64_t>(i));
    if (alarm(try_out(configuration))) ADD_FAILURE() << "case " << i << ": " << report(configuration);
  }
}

INSTANTIATE_TEST_SUITE_P(RandomConfigurations, Tested, testing::Range(0, kParts));

// What a mutant is written for; all else is drawn. It names units of a model of three blocks.
Configuration made_for(const Trial& mutant) {
  const Trial usual;
  Configuration pinned{{"--stages", mutant.stage},
                       {"layers", mutant.model == "synthetic" ? "0" : "3"},
                       {"--tied", mutant.tied ? "yes" : ""},
                       {"--unit-blocks", ""},
                       {"--steps", std::to_string(mutant.steps)},
                       {"--freeze", fmt::format("{}", fmt::join(mutant.frozen, ","))}};
  const auto pin = [&](bool unusual, const std::string& axis, const std::string& value) {
    if (unusual) pinned[axis] = value;
  };
  const bool placed = !mutant.node_of.empty();
  pin(mutant.world != usual.world || placed, "--ranks", std::to_string(mutant.world));
  pin(placed, "--ranks-per-node", "");
  pin(mutant.micro_batches != 0, "micro-steps", std::to_string(mutant.micro_batches / mutant.world));
  pin(mutant.recipe != usual.recipe, "--recipe", mutant.recipe);
  pin(mutant.wire != usual.wire, "--wire", "i64");
  pin(mutant.optimizer != usual.optimizer, "--optimizer", std::string(name_of(mutant.optimizer)));
  pin(mutant.accumulate != usual.accumulate, "--accumulate", std::string(name_of(mutant.accumulate)));
  pin(mutant.algorithm.has_value(), "--algorithm",
      std::string(name_of(mutant.algorithm.value_or(Algorithm::direct))));
  pin(mutant.clip != usual.clip, "--clip", fmt::format("{}", mutant.clip));
  pin(mutant.keep != usual.keep, "--keep", std::to_string(mutant.keep));
  pin(mutant.schedule.prefetch != 0, "--prefetch", std::to_string(mutant.schedule.prefetch));
  return pinned;
}

class EveryMutant : public testing::TestWithParam<Case> {};

TEST_P(EveryMutant, IsFoundByRandomConfigurations) {
  constexpr uint64_t kMost = 16;
  const auto& [mutant, refuted, says] = GetParam();
  for (uint64_t i = 0; i < kMost; ++i) {
    const Outcome outcome = try_out(draw(kSeed, i, made_for(mutant)), mutant);
    for (const Claim claim : outcome.refuted()) {
      if (refuted.contains(claim)) return;
    }
  }
  ADD_FAILURE() << "no alarm in " << kMost << " configurations";
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(mutants::all_mutants()),
                         [](const auto& info) { return info.param.mutant.name; });

// ---- How a failure is shown

TEST(RandomConfigurations, ShrinkToWhatAFailureNeeds) {
  const auto fails = [](const Configuration& c) {
    return c.at("--overlap") == "on" && std::stoi(c.at("--ranks")) >= 3 && c.at("--tied") == "yes" &&
           std::stoi(c.at("layers")) >= 2;
  };
  uint64_t number = 0;
  while (!fails(draw(kSeed, number))) ++number;
  EXPECT_EQ(command_line(shrink(draw(kSeed, number), fails)),
            "zeroproof verify --model layers=2,width=4,heads=1,positions=16,vocabulary=64 --micro-batches 3 "
            "--stages ddp --ranks 3 --steps 1 --tied --overlap on --threads 1");
}

TEST(RandomConfigurations, ShowWhatAMutantNeedsAndWhatIsRefuted) {
  Trial mutant;
  for (const Case& each : mutants::all_mutants()) {
    if (each.mutant.name == "SgdForgetsItsMomentum") mutant = each.mutant;
  }
  Configuration configuration = draw(kSeed, 0);
  configuration = with(configuration, "--optimizer", "sgd");
  configuration = with(configuration, "--steps", "3");
  const std::string text = report(configuration, mutant);
  EXPECT_NE(text.find(command_line(configuration)), std::string::npos) << text;
  EXPECT_NE(text.find("\nzeroproof verify --model synthetic --micro-batches 1 --stages ddp --ranks 1 "
                      "--steps 2 --optimizer sgd --threads 1\nbits REFUTED\n"),
            std::string::npos)
      << text;
}

// ---- By hand

struct Asked {
  uint64_t seed = kSeed;
  int64_t count = 1000;
};

Asked asked_for(const std::vector<std::string>& args) {
  constexpr int64_t kMost = 1'000'000'000;
  Asked asked;
  for (size_t i = 0; i < args.size(); i += 2) {
    const std::string value = i + 1 < args.size() ? args[i + 1] : "";
    if (args[i] == "--seed") {
      asked.seed = seed_number(args[i], value);
    } else if (args[i] == "--count") {
      asked.count = whole_number(args[i], value, 1, kMost);
    } else {
      fail(Exit::usage, "'" + args[i] + "' is no option; there are --seed and --count");
    }
  }
  return asked;
}

int by_hand(const Asked& asked) {
  const auto start = std::chrono::steady_clock::now();
  Progress progress;
  int64_t alarms = 0;
  for (int64_t i = 0; i < asked.count; ++i) {
    const Configuration configuration = draw(asked.seed, static_cast<uint64_t>(i));
    progress.show(fmt::format("case {} of {}, {} alarms", i, asked.count, alarms));
    if (!alarm(try_out(configuration))) continue;
    ++alarms;
    progress.clear();
    fmt::print("ALARM: case {} of seed {}: {}\n", i, asked.seed, report(configuration));
    std::fflush(stdout);
  }
  progress.clear();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("{} configurations of seed {}: {} proved, {} alarms, {:.1f} s\n", asked.count, asked.seed,
             asked.count - alarms, alarms, took.count());
  return static_cast<int>(alarms == 0 ? Exit::pass : Exit::bits);
}

}  // namespace
}  // namespace zp::drawn

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 1) return RUN_ALL_TESTS();
  try {
    return zp::drawn::by_hand(zp::drawn::asked_for({argv + 1, argv + argc}));
  } catch (const zp::Error& error) {
    fmt::print(stderr, "random_configurations: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
