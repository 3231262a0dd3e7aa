// What a table of verdicts shows, and that it stays within 100 columns whatever it has to show.
#include "harness/report/tables.hpp"

#include <gtest/gtest.h>

#include "correctness/report/sample.hpp"
#include "harness/report/statistics.hpp"
#include "harness/report/text_table.hpp"
#include "harness/theory/stages.hpp"

namespace zp {
namespace {

// Characters, not bytes.
size_t widest(const std::string& text) {
  size_t most = 0;
  for (const std::string& line : lines_of(text)) {
    size_t columns = 0;
    for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xc0U) != 0x80U ? 1 : 0;
    most = std::max(most, columns);
  }
  return most;
}

TEST(VerdictTable, ShowsTheNumbersOfAProvedStageBesideItsVerdicts) {
  const std::string text = verdict_table(sample_run());
  const std::string row = line_starting(text, "zero1-allreduce");
  std::istringstream cells(row);
  std::vector<std::string> seen;
  for (std::string cell; cells >> cell;) seen.push_back(cell);
  const std::vector<std::string> expected{"zero1-allreduce", "ok",   "ok",   "ok",    "ok",
                                          "250.0",           "8192", "3.00", "1.235", "2.00",
                                          "fedcba9876543210"};
  EXPECT_EQ(seen, expected) << text;
  EXPECT_TRUE(has(text, "24 claims proved, 0 refuted; exit 0")) << text;
  EXPECT_FALSE(has(text, "INVALID"));
  EXPECT_FALSE(has(text, "INJECTED"));
}

TEST(VerdictTable, ShowsEveryDistinctHashWholeAndWhoEndedOnIt) {
  RunResult run = sample_run();
  EXPECT_TRUE(has(verdict_table(run), "hash fedcba98765432100123456789abcdef  one for all\n"));
  EXPECT_TRUE(has(verdict_table(run), run.settings.hash_case));
  run.stages[4].hash.low += 1;
  const std::string text = verdict_table(run);
  EXPECT_FALSE(has(text, "one for all"));
  EXPECT_TRUE(has(text, "hash fedcba98765432100123456789abcdf0  zero3\n")) << text;
  EXPECT_TRUE(has(text, "abcdef  ddp, zero1, zero1-allreduce, zero2, zero3-keep, reference\n")) << text;
}

TEST(VerdictTable, ShowsWhatADeviceSaysOfItsMemoryWhereThereIsOne) {
  RunResult run = sample_run();
  EXPECT_FALSE(has(verdict_table(run), "pool in use"));
  for (StageResult& stage : run.stages) stage.device = sample_device();
  const std::string text = verdict_table(run);
  const std::string table = text.substr(text.find("pool in use"));
  std::istringstream cells(line_starting(table, "zero3-keep"));
  std::vector<std::string> seen;
  for (std::string cell; cells >> cell;) seen.push_back(cell);
  EXPECT_EQ(seen, (std::vector<std::string>{"zero3-keep", "5.00", "5.00", "32.00", "0.75", "300.00", "not",
                                            "measured", "3.50"}))
      << text;
  EXPECT_LE(widest(text), kTextWidth) << text;
  run.stages.back().device->grain = {};
  EXPECT_TRUE(has(verdict_table(run), "5.00 not measured    32.00")) << verdict_table(run);
}

TEST(VerdictTable, ShowsInvalidInsteadOfTheRateOfARefutedStage) {
  RunResult run = sample_run();
  refute(run.stages[3], Claim::memory,
         "step 1, rank 2 (place 2): grads after reduction: expected 10, held 20");
  run.exit = Exit::memory;
  const std::string text = verdict_table(run);
  const std::string row = line_starting(text, "zero2");
  EXPECT_TRUE(has(row, "INVALID")) << text;
  EXPECT_TRUE(has(row, "REFUTED"));
  EXPECT_FALSE(has(row, "8192"));
  EXPECT_FALSE(has(row, "250"));
  EXPECT_FALSE(has(row, "fedcba")) << "the hash of a stage that stopped early is no result";
  EXPECT_TRUE(has(text, "zero2: memory REFUTED\n  step 1, rank 2 (place 2): grads after reduction")) << text;
  EXPECT_TRUE(has(text, "23 claims proved, 1 refuted; exit 9")) << text;
  EXPECT_TRUE(has(line_starting(text, "zero3"), "8192"));
}

TEST(VerdictTable, SaysNotMeasuredInWords) {
  RunResult run = sample_run();
  run.stages[0].verdicts[1].finding = Finding::not_measured;
  const std::string text = verdict_table(run);
  EXPECT_TRUE(has(line_starting(text, "ddp"), "not measured")) << text;
  EXPECT_TRUE(has(line_starting(text, "ddp"), "8192")) << "what was not measured is not refuted";
  EXPECT_TRUE(has(text, "23 claims proved, 0 refuted, 1 not measured; exit 0")) << text;
}

TEST(VerdictTable, SaysWhatWasSentToOtherNodesAndHowTheModelDiffersFromItsName) {
  RunResult run = sample_run();
  EXPECT_EQ(verdict_table(run).find("other nodes"), std::string::npos);
  run.settings.nodes = 2;
  run.settings.tied = true;
  run.settings.frozen = {"head", "block.1"};
  run.settings.keep = 3;
  run.stages[0].crossing = {1'500'000};
  const std::string text = verdict_table(run);
  EXPECT_NE(text.find("sent to other nodes, MB: ddp 1.500, zero1 0.000"), std::string::npos) << text;
  for (const char* words : {"2 nodes", "tied", "frozen: head", "zero3 keeps 3 units"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(VerdictTable, SaysThatAFaultWasInjected) {
  RunResult run = sample_run();
  run.settings.injected = "bitflip:step=1,rank=2";
  const std::string text = verdict_table(run);
  EXPECT_EQ(line_starting(text, "INJECTED"), "INJECTED bitflip:step=1,rank=2");
  EXPECT_TRUE(has(text, "a fault was INJECTED; exit 0"));
}

TEST(VerdictTable, SaysWhomTheBitsWereComparedWith) {
  RunResult run = sample_run();
  EXPECT_FALSE(has(verdict_table(run), "golden"));
  run.settings.golden = "results/golden/small.json";
  run.stages[0].hash.low += 1;
  std::string text = verdict_table(run);
  EXPECT_TRUE(has(text, "\nbits by golden file results/golden/small.json\n")) << text;
  EXPECT_TRUE(has(text, "zero3-keep, golden file\n")) << text;
  EXPECT_FALSE(has(text, "reference\n")) << text;
  run.settings.golden = "";
  run.settings.write_golden = "new.json";
  EXPECT_TRUE(has(verdict_table(run), "golden file new.json not written\n"));
  run.golden_written = true;
  EXPECT_TRUE(has(verdict_table(run), "golden file new.json written\n"));
}

TEST(VerdictTable, ShowsNoHashOfAStateThatIsNotFinite) {
  RunResult run = sample_run();
  for (StageResult& stage : run.stages) stage.hash.finite = false;
  const std::string text = verdict_table(run);
  EXPECT_TRUE(has(text, "hash not finite")) << text;
  EXPECT_FALSE(has(line_starting(text, "ddp"), "fedcba"));
}

TEST(VerdictTable, ShowsNoNumbersOfAStageThatDidNoStep) {
  RunResult run = sample_run();
  run.stages[0].steps_done = 0;
  run.stages[0].step_times_s.clear();
  const std::string row = line_starting(verdict_table(run), "ddp");
  EXPECT_FALSE(has(row, "3.00")) << row;
  EXPECT_FALSE(has(row, "fedcba")) << row;
}

TEST(VerdictTable, StaysWithinAHundredColumns) {
  for (const Finding finding : {Finding::proved, Finding::refuted, Finding::not_measured}) {
    for (const double size : {1.0, 1e3, 1e6}) {
      RunResult run = sample_run();
      run.settings.data = std::string(150, 'd');
      run.settings.injected =
          "extra-compute:step=1,rank=2,stage=zero1-allreduce,unit=3 bitflip:step=1,rank=2,stage="
          "zero1-allreduce,unit=3";
      for (StageResult& stage : run.stages) {
        for (Verdict& verdict : stage.verdicts) {
          verdict.finding = finding;
          verdict.evidence = {std::string(90, 'x') + " " + std::string(250, 'y') + " is off"};
        }
        for (double& time_s : stage.step_times_s) time_s *= size;
        stage.tokens_per_step = static_cast<int64_t>(1e3 * size);
        stage.sent_per_step = {static_cast<int64_t>(1e6 * size)};
        stage.peak = {static_cast<int64_t>(1e6 * size)};
      }
      const std::string text = verdict_table(run);
      EXPECT_LE(widest(text), kTextWidth) << line_starting(text, "ddp");
      const bool refuted = finding == Finding::refuted;
      EXPECT_EQ(has(line_starting(text, "zero1-allreduce"), "fedcba98"), !refuted);
    }
  }
}

std::vector<std::string> cells_of(const std::string& row) {
  std::istringstream stream(row);
  std::vector<std::string> cells;
  for (std::string cell; stream >> cell;) cells.push_back(cell);
  return cells;
}

TEST(BenchTable, ShowsRatesMemoryBytesAndTransfersBesideTheVerdict) {
  const std::string text = bench_table(sample_bench());
  EXPECT_EQ(cells_of(line_starting(text, "zero1-allreduce")),
            (std::vector<std::string>{"zero1-allreduce", "proved", "10923", "4096", "32768", "187.5", "3.00",
                                      "1.235", "93.8", "0.75"}))
      << text;
  EXPECT_TRUE(has(text, "2 rounds, each of 2 steps to warm up and 2 timed; steps of 8 micro-batches"))
      << text;
  EXPECT_TRUE(has(text, "24 claims proved, 0 refuted; exit 0")) << text;
  EXPECT_FALSE(has(text, "INVALID"));
}

TEST(BenchTable, ShowsInvalidInsteadOfARefutedStagesRates) {
  BenchResult bench = sample_bench();
  refute(bench.run.stages[3], Claim::bytes, "step 3, rank 1: expected 10, sent 20");
  bench.run.stages[0].verdicts[1].finding = Finding::not_measured;
  bench.run.stages[0].sent_measured = false;
  for (StepSample& sample : bench.run.stages[4].samples) sample.transfers_timed = false;
  const std::string text = bench_table(bench);
  EXPECT_EQ(cells_of(line_starting(text, "zero2")),
            (std::vector<std::string>{"zero2", "bytes", "REFUTED", "INVALID", "INVALID", "INVALID", "INVALID",
                                      "3.00", "1.235", "INVALID", "INVALID"}))
      << text;
  EXPECT_TRUE(has(text, "zero2: bytes REFUTED\n  step 3, rank 1")) << text;
  EXPECT_EQ(cells_of(line_starting(text, "ddp")),
            (std::vector<std::string>{"ddp", "bytes", "n/m", "10923", "4096", "32768", "187.5", "3.00", "n/m",
                                      "93.8", "0.75"}))
      << text;
  EXPECT_EQ(cells_of(line_starting(text, "zero3")).back(), "n/m") << text;
}

TEST(BenchTable, StaysWithinAHundredColumns) {
  BenchResult bench = sample_bench();
  for (StageResult& stage : bench.run.stages) {
    refute(stage, Claim::memory, "much");
    stage.peak = {int64_t{1} << 40};
    stage.sent_per_step = {int64_t{1} << 40};
  }
  EXPECT_LE(widest(bench_table(bench)), kTextWidth) << bench_table(bench);
  bench = sample_bench();
  for (StageResult& stage : bench.run.stages) {
    stage.tokens_per_step = 100'000'000;
    stage.peak = {int64_t{1} << 40};
    stage.sent_per_step = {int64_t{1} << 40};
    for (StepSample& sample : stage.samples) sample.exposed_s = 1000;
  }
  EXPECT_LE(widest(bench_table(bench)), kTextWidth) << bench_table(bench);
}

TEST(VerdictTable, SaysWhoseArithmeticItIs) {
  RunResult run = sample_run();
  EXPECT_TRUE(has(verdict_table(run), "halving, ordered math\n")) << verdict_table(run);
  run.settings.math = "vendor";
  run.settings.vendor = "cuBLASLt 13.1.0 on a device";
  const std::string text = verdict_table(run);
  EXPECT_TRUE(has(text, "vendor math\n")) << text;
  EXPECT_TRUE(has(text, "vendor: cuBLASLt 13.1.0 on a device; bits are claimed of this library and device"))
      << text;
}

TEST(Text, BreaksAtSpacesAndCutsWordsThatFitNoLine) {
  const std::string text =
      paragraph("> ", std::string(60, 'a') + " " + std::string(60, 'b') + " " + std::string(120, 'c'));
  EXPECT_EQ(text, "> " + std::string(60, 'a') + "\n  " + std::string(60, 'b') + "\n  " +
                      std::string(98, 'c') + "\n  " + std::string(22, 'c') + "\n");
  EXPECT_EQ(paragraph("head ", ""), "head \n");
}

TEST(Text, WritesGigabytesExactlyAndWithoutTrailingZeros) {
  EXPECT_EQ(in_gb(38'500'000'000), "38.5");
  EXPECT_EQ(in_gb(28'000'000'000), "28");
  EXPECT_EQ(in_gb(1), "0.000000001");
  EXPECT_EQ(in_gb(0), "0");
  EXPECT_EQ(with_commas(1), "1");
  EXPECT_EQ(with_commas(123'456), "123,456");
  EXPECT_EQ(with_commas(-1'234'567), "-1,234,567");
}

PlanResult plan_of(double parameters, int ranks, int micro_steps) {
  PlanResult plan;
  plan.numbers.parameters = parameters;
  plan.numbers.ranks = ranks;
  plan.numbers.recipe = kRecipes[1];
  plan.numbers.micro_steps = micro_steps;
  plan.rows = theory::ideal_table(theory::kStages, plan.numbers);
  return plan;
}

TEST(PlanTable, ShowsTheLedgerOfSevenBillionParametersToTheLastDigit) {
  const std::string text = plan_table(plan_of(7e9, 4, 1));
  const std::vector<std::vector<std::string>> held{
      {"ddp", "14", "14", "84", "112", "-", "112,000,000,000"},
      {"zero1", "14", "14", "21", "49", "-", "49,000,000,000"},
      {"zero1-allreduce", "14", "14", "21", "49", "-", "49,000,000,000"},
      {"zero2", "14", "3.5", "21", "38.5", "-", "38,500,000,000"},
      {"zero3", "3.5", "3.5", "21", "28", "-", "28,000,000,000"},
      {"zero3-keep", "3.5", "3.5", "21", "28", "14", "28,000,000,000"},
      {"ddp", "2", "0", "21", "21", "21,000,000,000"},
      {"zero1", "2", "10.5", "10.5", "21", "21,000,000,000"},
      {"zero1-allreduce", "3", "10.5", "21", "31.5", "31,500,000,000"},
      {"zero2", "2", "10.5", "10.5", "21", "21,000,000,000"},
      {"zero3", "3", "21", "10.5", "31.5", "31,500,000,000"},
      {"zero3-keep", "2", "10.5", "10.5", "21", "21,000,000,000"},
  };
  std::vector<std::vector<std::string>> seen;
  for (const std::string& line : lines_of(text)) {
    std::istringstream stream(line);
    std::vector<std::string> cells;
    for (std::string cell; stream >> cell;) cells.push_back(cell);
    if (!cells.empty() && (cells[0] == "ddp" || cells[0].starts_with("zero"))) seen.push_back(cells);
  }
  EXPECT_EQ(seen, held) << text;
}

TEST(PlanTable, StaysWithinAHundredColumns) {
  for (const double parameters : {1.0, 1e6 + 1, 7e9, 1e13}) {
    for (const int ranks : {1, 3, 7, 1000}) {
      const std::string text = plan_table(plan_of(parameters, ranks, 3));
      EXPECT_LE(widest(text), kTextWidth) << text;
    }
  }
}

}  // namespace
}  // namespace zp
