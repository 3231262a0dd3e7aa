// Random configurations hold their claims, every mutant is found by them, and what fails is shown at its
// simplest. As a test a hundred of them; by hand, with --seed S --count K, as many as one likes, and with
// --mutants the draws until each mutant is found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "correctness/mutants/cases.hpp"
#include "correctness/mutants/wrong_strategies.hpp"
#include "correctness/random/hunt.hpp"
#include "correctness/random/search.hpp"
#include "harness/report/progress.hpp"
#include "harness/suite/number_text.hpp"

namespace zp::drawn {
namespace {

using mutants::Case;
using mutants::Trial;

constexpr uint64_t kSeed = 1;
constexpr int kTested = 100;
constexpr int kParts = 5;  // tests run beside each other
constexpr int64_t kMostDraws = 200;

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

class EveryMutant : public testing::TestWithParam<Hunted> {};

TEST_P(EveryMutant, IsFoundByRandomConfigurations) {
  const int64_t draws = draws_until_found(GetParam(), kSeed, kMostDraws);
  EXPECT_GT(draws, 0) << "in none of " << kMostDraws << " configurations";
  RecordProperty("draws", static_cast<int>(draws));
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(hunted()),
                         [](const auto& info) { return info.param.mutant.name; });

// The control: the pieces of which wrong strategies are made are right. What stages do is tried above.
TEST(Mutants, AreNotFoundWhereThereIsNone) {
  Hunted right{.mutant = {}, .is_found = alarm};
  right.mutant.stage = "zero2";
  right.mutant.make = mutants::open_zero2;
  EXPECT_EQ(draws_until_found(right, kSeed, 10), 0);
}

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
  bool mutants = false;
};

Asked asked_for(const std::vector<std::string>& args) {
  constexpr int64_t kMost = 1'000'000'000;
  Asked asked;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--mutants") {
      asked.mutants = true;
      continue;
    }
    const std::string& option = args[i];
    const std::string value = i + 1 < args.size() ? args[++i] : "";
    if (option == "--seed") {
      asked.seed = seed_number(option, value);
    } else if (option == "--count") {
      asked.count = whole_number(option, value, 1, kMost);
    } else {
      fail(Exit::usage, "'" + option + "' is no option; there are --seed, --count and --mutants");
    }
  }
  return asked;
}

int64_t try_configurations(const Asked& asked) {
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
  fmt::print("{} configurations of seed {}: {} proved, {} alarms", asked.count, asked.seed,
             asked.count - alarms, alarms);
  return alarms;
}

int64_t hunt_mutants(const Asked& asked) {
  int64_t drawn = 0, missed = 0;
  const std::vector<Hunted> all = hunted();
  for (const Hunted& each : all) {
    const int64_t draws = draws_until_found(each, asked.seed, asked.count);
    drawn += draws > 0 ? draws : asked.count;
    if (draws == 0) ++missed;
    fmt::print("{:>6}  {}\n", draws > 0 ? std::to_string(draws) : "none", each.mutant.name);
    std::fflush(stdout);
  }
  fmt::print("{} mutants, seed {}: {} found, {} missed, {} configurations", all.size(), asked.seed,
             static_cast<int64_t>(all.size()) - missed, missed, drawn);
  return missed;
}

int by_hand(const Asked& asked) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t failures = asked.mutants ? hunt_mutants(asked) : try_configurations(asked);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print(", {:.1f} s\n", took.count());
  return static_cast<int>(failures == 0 ? Exit::pass : Exit::bits);
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
