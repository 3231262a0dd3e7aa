// The fold over micro-batches: its visits against the tree built from the rule, and the layouts whose sum is
// the fold over all micro-batches, tried one by one with symbolic sums.
#include "harness/layout/fold.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/check.hpp"

namespace zp {
namespace {

constexpr int kMost = 64;

// A sum as text, e.g. "((0+2)+1)". Addition commutes bit for bit, so the operand with the lower first element
// is written first; it does not associate.
struct Sum {
  int lowest = 0;
  std::string text;
  friend bool operator==(const Sum&, const Sum&) = default;
};

Sum leaf(int element) { return {element, std::to_string(element)}; }

Sum plus(const Sum& a, const Sum& b) {
  const Sum& first = a.lowest < b.lowest ? a : b;
  const Sum& second = a.lowest < b.lowest ? b : a;
  std::string text;
  text.append("(").append(first.text).append("+").append(second.text).append(")");
  return {first.lowest, text};
}

int largest_power_of_two_below(int count) {
  int power = 1;
  while (2 * power < count) power *= 2;
  return power;
}

// The rule of design 3.4, word for word.
Sum fold(std::vector<Sum> terms) {
  while (terms.size() > 1) {
    const auto half = static_cast<size_t>(largest_power_of_two_below(static_cast<int>(terms.size())));
    for (size_t i = 0; i + half < terms.size(); ++i) terms[i] = plus(terms[i], terms[i + half]);
    terms.resize(half);
  }
  return terms.front();
}

Sum fold_of(int count) {
  std::vector<Sum> terms;
  for (int i = 0; i < count; ++i) terms.push_back(leaf(i));
  return fold(terms);
}

// Carries visits out on buffers, some of which must be empty or full when they are used.
struct Run {
  Sum result;
  int buffers = 0;
  std::vector<int> order;
};

Run carry_out(const std::vector<Visit>& visits) {
  std::map<int, Sum> live;
  Run run;
  for (const Visit& visit : visits) {
    run.order.push_back(visit.element);
    run.buffers = std::max(run.buffers, visit.target + 1);
    EXPECT_EQ(live.contains(visit.target), !visit.first) << "element " << visit.element;
    live[visit.target] = visit.first ? leaf(visit.element) : plus(live[visit.target], leaf(visit.element));
    for (const Visit::Merge& merge : visit.merges) {
      EXPECT_TRUE(live.contains(merge.into) && live.contains(merge.from));
      EXPECT_NE(merge.into, merge.from);
      live[merge.into] = plus(live[merge.into], live[merge.from]);
      live.erase(merge.from);
    }
  }
  EXPECT_EQ(live.size(), 1U);
  run.result = live.at(0);
  return run;
}

// Post-order with the deeper child first, the lower index first on a tie; another account of the same tree.
struct Branch {
  int depth = 0;
  std::vector<int> order;
};

std::vector<int> post_order(int count) {
  std::vector<Branch> row;
  for (int i = 0; i < count; ++i) row.push_back({0, {i}});
  while (row.size() > 1) {
    const auto half = static_cast<size_t>(largest_power_of_two_below(static_cast<int>(row.size())));
    for (size_t i = 0; i + half < row.size(); ++i) {
      const Branch low = row[i];
      const Branch high = row[i + half];
      const bool low_first = low.depth >= high.depth;
      row[i].depth = std::max(low.depth, high.depth) + 1;
      row[i].order = low_first ? low.order : high.order;
      const auto& rest = low_first ? high.order : low.order;
      row[i].order.insert(row[i].order.end(), rest.begin(), rest.end());
    }
    row.resize(half);
  }
  return row.front().order;
}

TEST(FoldVisits, LeaveTheFoldOfAllElementsInBufferZero) {
  for (int count = 1; count <= kMost; ++count) {
    EXPECT_EQ(carry_out(fold_visits(count)).result, fold_of(count)) << count;
  }
}

TEST(FoldVisits, ComeInPostOrderDeeperChildFirst) {
  for (int count = 1; count <= kMost; ++count) {
    EXPECT_EQ(carry_out(fold_visits(count)).order, post_order(count)) << count;
  }
}

TEST(FoldVisits, UseAsManyExtraBuffersAsTheLedgerSays) {
  for (int count = 1; count <= kMost; ++count) {
    int log = 0;
    while ((2 << log) <= count) ++log;
    EXPECT_EQ(extra_fold_buffers(count), std::max(log - 1, 0)) << count;
    EXPECT_EQ(carry_out(fold_visits(count)).buffers, 1 + extra_fold_buffers(count)) << count;
  }
}

TEST(FoldVisits, AddOnceForEveryElementButOne) {
  for (int count = 1; count <= kMost; ++count) {
    size_t additions = 0;
    for (const Visit& visit : fold_visits(count)) additions += (visit.first ? 0U : 1U) + visit.merges.size();
    EXPECT_EQ(additions, static_cast<size_t>(count - 1)) << count;
  }
}

TEST(FoldVisits, AreTheseForSix) {
  // 0+4, 1+5, then +2, +3, then the two.
  EXPECT_EQ(fold_of(6).text, "(((0+4)+2)+((1+5)+3))");
  EXPECT_EQ(carry_out(fold_visits(6)).order, (std::vector<int>{0, 4, 2, 1, 5, 3}));
}

TEST(FoldVisits, RefuseNoElements) { EXPECT_THROW(fold_visits(0), Error); }

// ((0+1)+2)+…, in the scratch and nothing else.
Sum chain(const std::vector<Sum>& terms) {
  Sum sum = terms.front();
  for (size_t i = 1; i < terms.size(); ++i) sum = plus(sum, terms[i]);
  return sum;
}

TEST(SequentialVisits, AddOneAfterAnotherWithoutExtraBuffers) {
  for (int count = 1; count <= kMost; ++count) {
    const Batching batching{1, count, Accumulate::sequential};
    const auto run = carry_out(visits(batching));
    std::vector<Sum> terms;
    std::vector<int> order;
    for (int i = 0; i < count; ++i) {
      terms.push_back(leaf(i));
      order.push_back(i);
    }
    EXPECT_EQ(run.result, chain(terms)) << count;
    EXPECT_EQ(run.order, order);
    EXPECT_EQ(run.buffers, 1 + extra_buffers(batching)) << count;
    EXPECT_EQ(visits({3, 3 * count}), fold_visits(count)) << "the fold is the default";
    EXPECT_EQ(extra_buffers({3, 3 * count}), extra_fold_buffers(count));
  }
}

TEST(MicroBatches, AreComputedOnceEachWhateverTheReduction) {
  for (int micro_batches = 1; micro_batches <= kMost; ++micro_batches) {
    for (int world = 1; world <= micro_batches; ++world) {
      if (micro_batches % world != 0) continue;
      const Batching batching{world, micro_batches};
      for (const Reduction reduction : {Reduction::after_accumulation, Reduction::every_micro_step}) {
        std::vector<int> seen;
        for (int place = 0; place < world; ++place) {
          for (int element = 0; element < batching.micro_steps(); ++element) {
            seen.push_back(micro_batch_of(reduction, batching, place, element));
          }
        }
        std::ranges::sort(seen);
        std::vector<int> all(static_cast<size_t>(micro_batches));
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(seen, all) << world << " of " << micro_batches;
      }
    }
  }
}

TEST(MicroBatches, AreDealtOutInTurnOrInRuns) {
  const Batching batching{2, 6};
  EXPECT_EQ(micro_batch_of(Reduction::after_accumulation, batching, 1, 2), 5);
  EXPECT_EQ(micro_batch_of(Reduction::after_accumulation, batching, 1, 0), 1);
  EXPECT_EQ(micro_batch_of(Reduction::every_micro_step, batching, 1, 0), 3);
  EXPECT_EQ(micro_batch_of(Reduction::every_micro_step, batching, 0, 2), 2);
  EXPECT_THROW(micro_batch_of(Reduction::every_micro_step, batching, 0, 3), Error);
}

TEST(MicroBatches, DefaultToTheFirstMultipleOfTheWorldFromEightOn) {
  const std::vector<int> expected{8, 8, 9, 8, 10, 12, 14, 8, 9};
  for (int world = 1; world <= 9; ++world) {
    EXPECT_EQ(default_micro_batches(world), expected[static_cast<size_t>(world - 1)]) << world;
  }
}

Sum over_micro_steps(const Batching& batching, const std::vector<Sum>& terms) {
  return batching.accumulate == Accumulate::fold ? fold(terms) : chain(terms);
}

// The sum that a stage makes: over its own micro-steps and then over places, or the other way round.
Sum sum_of_layout(Reduction reduction, const Batching& batching) {
  const bool steps_first = reduction == Reduction::after_accumulation;
  const int outer = steps_first ? batching.world : batching.micro_steps();
  const int inner = steps_first ? batching.micro_steps() : batching.world;
  std::vector<Sum> sums;
  for (int o = 0; o < outer; ++o) {
    std::vector<Sum> terms;
    for (int i = 0; i < inner; ++i) {
      terms.push_back(leaf(micro_batch_of(reduction, batching, steps_first ? o : i, steps_first ? i : o)));
    }
    sums.push_back(steps_first ? over_micro_steps(batching, terms) : fold(terms));
  }
  return steps_first ? fold(sums) : over_micro_steps(batching, sums);
}

TEST(GlobalFold, IsWhatEveryLayoutMakesOfWhichItIsSaidAndNoOther) {
  for (int micro_batches = 1; micro_batches <= kMost; ++micro_batches) {
    const Sum global = fold_of(micro_batches);
    for (int world = 1; world <= micro_batches; ++world) {
      if (micro_batches % world != 0) continue;
      for (const Accumulate accumulate : {Accumulate::fold, Accumulate::sequential}) {
        const Batching batching{world, micro_batches, accumulate};
        for (const Reduction reduction : {Reduction::after_accumulation, Reduction::every_micro_step}) {
          EXPECT_EQ(equals_global_fold(reduction, batching), sum_of_layout(reduction, batching) == global)
              << "N " << world << ", M " << micro_batches << ", " << name_of(accumulate)
              << (reduction == Reduction::after_accumulation ? ", after accumulation" : ", every micro-step");
        }
      }
    }
  }
}

// Design 3.4: one hash for every stage and for 1, 2, 4, 8 ranks at M = 8.
TEST(GlobalFold, IsWhatEveryStageMakesOfEightMicroBatchesOnPowersOfTwo) {
  for (const int world : {1, 2, 4, 8}) {
    EXPECT_TRUE(equals_global_fold(Reduction::after_accumulation, {world, 8}));
    EXPECT_TRUE(equals_global_fold(Reduction::every_micro_step, {world, 8}));
  }
}

}  // namespace
}  // namespace zp
