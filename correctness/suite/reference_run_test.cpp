// Ranks that wait for the reference hear that rank 0 is at work far more often than a micro-batch ends: one
// of a large model takes longer than they wait.
#include "harness/suite/reference_run.hpp"

#include <gtest/gtest.h>

#include "harness/suite/command_line.hpp"

namespace zp {
namespace {

// Rank 0's end of a line on which nobody listens.
class Counted final : public Control {
 public:
  int rank() const override { return 0; }
  int world() const override { return 2; }
  std::vector<std::string> all_gather(const std::string& mine) override { return {mine, mine}; }
  std::string broadcast(const std::string& from_rank0) override { return from_rank0; }
  void alive() override { ++words; }
  void check() override {}
  void announce_failure(Exit, const std::string&) override {}
  std::vector<std::optional<std::string>> last_words(const std::string&, double) override { return {}; }

  int words = 0;
};

TEST(References, SayThatTheyAreAtWorkWithinAMicroBatch) {
  const std::vector<std::string> line{"verify", "--model",         "tiny", "--steps", "2", "--stages",
                                      "ddp",    "--micro-batches", "2"};
  const Job job =
      resolve(std::get<VerifyOptions>(parse_command_line(line, {.world = 2, .rank = 0})), 2, "mpi");
  const int micro_batches = job.steps * job.training.batching.micro_batches;
  constexpr int kOften = 20;  // kernels of one block's forward and backward

  Counted control;
  int shown = 0;
  const std::vector<ReferenceRun> runs = run_references(job, control, [&](const std::string&) { ++shown; });
  EXPECT_EQ(shown, micro_batches);
  EXPECT_GT(control.words, kOften * micro_batches);

  const int before = control.words;
  replay(job, runs.front().arithmetic, control, job.steps - 1, HashKind::param, 0);
  EXPECT_GT(control.words - before, kOften * micro_batches);
}

}  // namespace
}  // namespace zp
