// Traffic in closed form against messages counted one by one, and against the passes that the literature
// gives.
#include "harness/theory/traffic.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "correctness/theory/shapes.hpp"
#include "harness/base/check.hpp"
#include "harness/theory/stages.hpp"

namespace zp::theory {
namespace {

struct Case {
  int world;
  int micro_steps;
  Algorithm algorithm;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (int world = 1; world <= 8; ++world) {
    for (const int micro_steps : {1, 2, 3}) {
      list.push_back({world, micro_steps, Algorithm::direct});
      list.push_back({world, micro_steps, Algorithm::ring});
      if (std::has_single_bit(static_cast<unsigned>(world)))
        list.push_back({world, micro_steps, Algorithm::halving});
    }
  }
  return list;
}

// Sends the collectives of a step one after another, by the algorithm's own steps, and counts.
class Sends {
 public:
  Sends(const Layout& layout, Algorithm algorithm) : layout_(layout), algorithm_(algorithm) {
    lines_.resize(static_cast<size_t>(layout.world()));
  }

  void carry_out(const Collective& c) {
    if (c.operation != Operation::all_gather) reduce_scatter(c);
    Collective gather = c;
    // What was summed in fixed point is gathered in fp32.
    if (c.operation == Operation::all_reduce && c.type == Type::i64) gather.type = Type::f32;
    if (c.operation != Operation::reduce_scatter) all_gather(gather);
  }

  const SentLines& of_rank(int rank) const { return lines_[static_cast<size_t>(rank)]; }

 private:
  int64_t slice_bytes(const Collective& c) const { return c.count.n / layout_.world() * size_of(c.type).n; }

  void send(const Collective& c, int from, int to, int64_t bytes, int64_t longest) {
    if (bytes == 0) return;
    const auto& rank_at = layout_.places().rank_at;
    Sent& sent = lines_[static_cast<size_t>(rank_at[static_cast<size_t>(from)])][c.purpose]
                       [rank_at[static_cast<size_t>(to)]];
    for (int64_t left = bytes; left > 0; left -= longest) ++sent.messages;
    sent.bytes += {bytes};
  }

  // Recursive halving: whoever still sums a range of places gives away the half that its partner keeps.
  void reduce_scatter(const Collective& c) {
    const int world = layout_.world();
    for (int place = 0; place < world; ++place) {
      if (algorithm_ == Algorithm::direct) {
        for (int owner = 0; owner < world; ++owner) {
          if (owner != place) send(c, place, owner, slice_bytes(c), 256 * 1024);
        }
        continue;
      }
      // Every slice goes round from place to place until its owner has it.
      for (int step = 1; step < world && algorithm_ == Algorithm::ring; ++step)
        send(c, place, (place + 1) % world, slice_bytes(c), 256 * 1024);
      int begin = 0;
      int end = algorithm_ == Algorithm::ring ? 0 : world;
      while (end - begin > 1) {
        const int half = (end - begin) / 2;
        const bool in_low = place < begin + half;
        send(c, place, in_low ? place + half : place - half, half * slice_bytes(c), 256 * 1024);
        (in_low ? end : begin) = begin + half;
      }
    }
  }

  // Doubling: everyone holds its slice; partners at growing distance exchange all they hold.
  void all_gather(const Collective& c) {
    const int world = layout_.world();
    for (int place = 0; place < world; ++place) {
      if (algorithm_ == Algorithm::direct) {
        for (int peer = 0; peer < world; ++peer) {
          if (peer != place) send(c, place, peer, slice_bytes(c), 256 * 1024);
        }
        continue;
      }
      for (int step = 1; step < world && algorithm_ == Algorithm::ring; ++step)
        send(c, place, (place + 1) % world, slice_bytes(c), 256 * 1024);
      for (int holds = 1; holds < world && algorithm_ == Algorithm::halving; holds *= 2) {
        const int partner = place / holds % 2 == 0 ? place + holds : place - holds;
        send(c, place, partner, holds * slice_bytes(c), 256 * 1024);
      }
    }
  }

  const Layout& layout_;
  Algorithm algorithm_;
  std::vector<SentLines> lines_;
};

class StageTraffic : public testing::TestWithParam<Stage> {};

INSTANTIATE_TEST_SUITE_P(Traffic, StageTraffic, testing::ValuesIn(kStages), [](const auto& info) {
  std::string name(info.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(StageTraffic, SendsWhatItsCollectivesTakeMessageByMessage) {
  for (const std::vector<UnitSpec>& units : {odd_units(), long_units()}) {
    for (const Case& c : cases()) {
      const Layout layout(units, turned(c.world));
      for (const Training& training : trainings_of(c.world, c.micro_steps)) {
        Sends sends(layout, c.algorithm);
        for (const Collective& each : collectives_of_step(GetParam(), layout, training))
          sends.carry_out(each);
        for (int rank = 0; rank < c.world; ++rank) {
          EXPECT_EQ(sent_per_step(GetParam(), layout, training, c.algorithm, rank), sends.of_rank(rank))
              << "N " << c.world << ", A " << c.micro_steps << ", " << name_of(c.algorithm) << ", rank "
              << rank;
        }
      }
    }
  }
}

TEST_P(StageTraffic, AsksForWhatItsCollectivesAddUpTo) {
  for (const Case& c : cases()) {
    const Layout layout(odd_units(), turned(c.world));
    for (const Training& training : trainings_of(c.world, c.micro_steps)) {
      AskedLines counted;
      for (const Collective& each : collectives_of_step(GetParam(), layout, training)) {
        Asked& asked = counted[each.purpose][each.operation];
        ++asked.calls;
        asked.whole += each.count * size_of(each.type);
      }
      EXPECT_EQ(asked_per_step(GetParam(), layout, training), counted)
          << "N " << c.world << ", A " << c.micro_steps;
    }
  }
}

// (N-1)/N·S per pass, whatever the algorithm; loss 4A(N-1) and norm 48(N-1) bytes.
TEST_P(StageTraffic, SendsThePassesOfTheLedgerFromEveryRank) {
  for (const Case& c : cases()) {
    const Layout layout(odd_units(), turned(c.world));
    for (const Training& training : trainings_of(c.world, c.micro_steps)) {
      const Recipe& recipe = training.recipe;
      const Bytes wire = training.wire == GradientWire::i64 ? Bytes{8} : size_of(recipe.grads);
      const Passes count = passes(GetParam(), c.micro_steps);
      const Bytes of_params = (layout.padded() - layout.slices()) * size_of(recipe.params) * count.gathers;
      const Elements pass = layout.padded() - layout.slices();
      const Bytes of_grads =
          pass * wire * count.reduce_scatters + pass * size_of(recipe.grads) * count.grad_gathers;
      const Bytes of_loss{4 * c.micro_steps * (c.world - 1)};
      const Bytes of_norm{48 * (c.world - 1)};
      for (int rank = 0; rank < c.world; ++rank) {
        const SentLines lines = sent_per_step(GetParam(), layout, training, c.algorithm, rank);
        EXPECT_EQ(total(lines), of_params + of_grads + of_loss + of_norm);
      }
    }
  }
}

TEST_P(StageTraffic, SendsNothingAlone) {
  const Layout layout(odd_units(), 1);
  EXPECT_TRUE(sent_per_step(GetParam(), layout, training_of(1, 3), Algorithm::direct, 0).empty());
  EXPECT_FALSE(asked_per_step(GetParam(), layout, training_of(1, 3)).empty());
}

TEST_P(StageTraffic, RefusesABatchingOfAnotherWorld) {
  const Layout layout(odd_units(), 2);
  EXPECT_THROW(sent_per_step(GetParam(), layout, training_of(3, 1), Algorithm::direct, 0), Error);
}

TEST(Passes, AreThoseOfTheTable) {
  const std::vector<int64_t> once{2, 2, 3, 2, 3, 2};
  const std::vector<int64_t> four_times{2, 2,  3,
                                        5, 12, 8};  // A = 4: zero2 reduces, zero3 also gathers, each time
  for (size_t i = 0; i < kStages.size(); ++i) {
    EXPECT_EQ(passes(kStages[i], 1).all(), once[i]) << kStages[i].name;
    EXPECT_EQ(passes(kStages[i], 4).all(), four_times[i]) << kStages[i].name;
  }
}

// Two units, two ranks, two micro-steps: the whole log by hand.
TEST(Collectives, OfZero3ComeInThisOrder) {
  const Layout layout({unit_of("a", {{2}}), unit_of("b", {{3}})}, 2, 1);
  const auto gather = [](int unit) {
    return Collective{Operation::all_gather, Purpose::gather_params, Type::bf16, {unit == 0 ? 2 : 4}, unit};
  };
  const auto reduce = [](int unit) {
    return Collective{Operation::reduce_scatter, Purpose::reduce_grads, Type::f32, {unit == 0 ? 2 : 4}, unit};
  };
  std::vector<Collective> expected;
  for (int micro_step = 0; micro_step < 2; ++micro_step) {
    for (const Collective& c : {gather(0), gather(1), gather(1), reduce(1), gather(0), reduce(0)}) {
      expected.push_back(c);
    }
  }
  expected.push_back({Operation::all_gather, Purpose::loss, Type::f32, {4}, -1});
  expected.push_back({Operation::all_gather, Purpose::grad_norm, Type::i64, {12}, -1});
  EXPECT_EQ(collectives_of_step(kZero3, layout, training_of(2, 2)), expected);
}

TEST(Collectives, OfABorrowedUnitGatherItForItsBorrower) {
  std::vector<UnitSpec> units{unit_of("a", {{2}}), unit_of("b", {{3}})};
  units.back().borrows = 0;
  const Layout layout(units, 2, 1);
  std::vector<std::pair<int, int>> gathered_reduced;  // unit, or -1
  for (const Collective& c : collectives_of_step(kZero3, layout, training_of(2, 1))) {
    if (c.purpose == Purpose::gather_params) gathered_reduced.emplace_back(c.tensor, -1);
    if (c.purpose == Purpose::reduce_grads) gathered_reduced.emplace_back(-1, c.tensor);
  }
  const std::vector<std::pair<int, int>> expected{{0, -1}, {1, -1}, {0, -1}, {1, -1},
                                                  {0, -1}, {-1, 1}, {0, -1}, {-1, 0}};
  EXPECT_EQ(gathered_reduced, expected);
}

// Three passes, and two gathers of the borrowed unit; kept units are gathered once, frozen ones not reduced.
TEST(Traffic, FollowsFromTheUses) {
  std::vector<UnitSpec> units{unit_of("a", {{100}}), unit_of("b", {{60}}), unit_of("c", {{40}})};
  const auto gathered = [](const std::vector<UnitSpec>& of, int keep) {
    Training training = training_of(4, 2);
    training.keep = keep;
    const SentLines lines = sent_per_step(kZero3, Layout(of, 4, 1), training, Algorithm::direct, 1);
    return total({{Purpose::gather_params, lines.at(Purpose::gather_params)}}).n;
  };
  EXPECT_EQ(gathered(units, 0), 2 * 3 * 2 * (2 * 25 + 2 * 15 + 2 * 10));
  EXPECT_EQ(gathered(units, 1), 2 * 3 * 2 * (2 * 25 + 2 * 15 + 10));
  EXPECT_EQ(gathered(units, 3), 2 * 3 * 2 * (25 + 15 + 10));
  EXPECT_EQ(gathered(units, 9), gathered(units, 3));
  units.back().borrows = 0;
  EXPECT_EQ(gathered(units, 0), 2 * 3 * 2 * (4 * 25 + 2 * 15 + 2 * 10));
  EXPECT_EQ(gathered(units, 1), 2 * 3 * 2 * (4 * 25 + 2 * 15 + 10));
  EXPECT_EQ(gathered(units, 3), 2 * 3 * 2 * (25 + 15 + 10));
  units[0].frozen = units[1].frozen = true;  // backward ends at the last unit
  EXPECT_EQ(gathered(units, 0), 2 * 3 * 2 * (3 * 25 + 15 + 2 * 10));
  const SentLines lines = sent_per_step(kZero2, Layout(units, 4, 1), training_of(4, 2), Algorithm::direct, 1);
  EXPECT_EQ(total({{Purpose::gather_params, lines.at(Purpose::gather_params)}}).n, 3 * 2 * 10);
  EXPECT_EQ(total({{Purpose::reduce_grads, lines.at(Purpose::reduce_grads)}}).n, 2 * 3 * 4 * 10);
}

// What crosses, in closed form, against the peers of every rank.
TEST(Traffic, AcrossNodesIsTheClosedForm) {
  for (const auto& [world, each] : {std::pair(2, 1), {4, 2}, {8, 2}, {8, 4}, {8, 8}, {6, 3}, {6, 2}}) {
    std::vector<int> node_of;
    for (int rank = 0; rank < world; ++rank) node_of.push_back(rank / each);
    const Layout layout(odd_units(), Places::by_node(node_of));
    for (const Algorithm algorithm : {Algorithm::halving, Algorithm::direct, Algorithm::ring}) {
      if (algorithm == Algorithm::halving && world == 6) continue;
      for (const Stage& stage : kStages) {
        const Training training = training_of(world, 2);
        const Bytes crossing = crossing_per_step(stage, layout, training, algorithm);
        for (int rank = 0; rank < world; ++rank) {
          Bytes counted;
          for (const auto& [purpose, peers] : sent_per_step(stage, layout, training, algorithm, rank)) {
            for (const auto& [peer, sent] : peers) {
              if (peer / each != rank / each) counted += sent.bytes;
            }
          }
          EXPECT_EQ(crossing, counted) << stage.name << ", " << world << " ranks, " << each << " a node";
        }
      }
    }
  }
  const Layout unequal(odd_units(), Places::by_node({0, 0, 2}));
  EXPECT_THROW(crossing_per_step(kDdp, unequal, training_of(3, 1), Algorithm::direct), Error);
}

TEST(Collectives, OfZero1ReduceInTheLastMicroStepAndGatherAfterTheStep) {
  const Layout layout({unit_of("a", {{2}}), unit_of("b", {{3}})}, 2, 1);
  const std::vector<Collective> expected{
      {Operation::reduce_scatter, Purpose::reduce_grads, Type::f32, {4}, 1},
      {Operation::reduce_scatter, Purpose::reduce_grads, Type::f32, {2}, 0},
      {Operation::all_gather, Purpose::loss, Type::f32, {6}, -1},
      {Operation::all_gather, Purpose::grad_norm, Type::i64, {12}, -1},
      {Operation::all_gather, Purpose::gather_params, Type::bf16, {2}, 0},
      {Operation::all_gather, Purpose::gather_params, Type::bf16, {4}, 1},
  };
  EXPECT_EQ(collectives_of_step(kZero1, layout, training_of(2, 3)), expected);
}

}  // namespace
}  // namespace zp::theory
