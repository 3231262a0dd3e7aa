// Records: what they hold, that nothing is recorded without its verdicts, and that no file is overwritten
// silently.
#include "harness/report/record.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "correctness/report/sample.hpp"
#include "harness/report/environment.hpp"
#include "harness/report/progress.hpp"

namespace zp {
namespace {

namespace fs = std::filesystem;

// A folder of its own, gone at the end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "zp_record_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return (fs::path(path_) / name).string(); }

 private:
  std::string path_;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The message of the usage error that `act` ends on.
template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::usage) << error.what();
    return error.what();
  }
  return "";
}

TEST(Record, BeginsWithItsSchema) {
  const RunResult run = sample_run();
  EXPECT_TRUE(Record(run).line().starts_with(R"({"schema":"zeroproof/run/1",)"));
  EXPECT_TRUE(Record(run, run.stages[0]).line().starts_with(R"({"schema":"zeroproof/stage/1",)"));
}

TEST(Record, HoldsWhatADeviceSaysOfItsMemory) {
  RunResult run = sample_run();
  EXPECT_TRUE(has(Record(run, run.stages[0]).line(), R"("device_memory":null)"));
  run.stages[0].device = sample_device();
  EXPECT_TRUE(
      has(Record(run, run.stages[0]).line(),
          R"("device_memory":{"grain_bytes":512,"pool_used_most_bytes":5242880,)"
          R"("ledger_taken_most_bytes":5242880,"pool_used_after_step_bytes":2097152,)"
          R"("ledger_taken_after_step_bytes":2097152,"pool_reserved_most_bytes":33554432,)"
          R"("pinned_bytes":786432,"context_bytes":314572800,"carrier_bytes":null,"rest_bytes":3670016})"))
      << Record(run, run.stages[0]).line();
  run.stages[0].device->grain = {};
  EXPECT_TRUE(has(Record(run, run.stages[0]).line(), R"("grain_bytes":null,"pool_used_most_bytes":5242880,)"
                                                     R"("ledger_taken_most_bytes":null)"));
}

TEST(Record, CannotBeBuiltWithoutAVerdictOfEveryClaim) {
  RunResult run = sample_run();
  StageResult stage = run.stages[0];
  stage.verdicts[2] = Verdict{};  // a verdict of bits in the place of memory
  EXPECT_THROW(Record(run, stage), Error);
  EXPECT_THROW(Record(run, StageResult{}), Error);
  run.stages.clear();
  EXPECT_THROW(Record{run}, Error);
}

TEST(Record, HoldsNoRateOfARefutedStageButItsEvidence) {
  RunResult run = sample_run();
  EXPECT_TRUE(has(Record(run, run.stages[0]).line(), R"("tokens_per_s":8192.0)"));
  refute(run.stages[0], Claim::bits, "step 1: block.0.qkv.weight[17]");
  const std::string line = Record(run, run.stages[0]).line();
  EXPECT_TRUE(has(line, R"("tokens_per_s":null)")) << line;
  EXPECT_TRUE(has(line, R"("proved":false)"));
  EXPECT_TRUE(has(
      line, R"("bits":{"verdict":"refuted","holds":false,"evidence":["step 1: block.0.qkv.weight[17]"],)"));
  EXPECT_TRUE(has(line, R"("step_times_s":[0.5,0.25,0.125])")) << "raw samples are kept";
  EXPECT_TRUE(has(line, R"("checked_step_times_s":[1.0,0.5,0.25])"));
}

TEST(Record, SaysNullForWhatWasNotMeasured) {
  RunResult run = sample_run();
  run.stages[0].verdicts[1].finding = Finding::not_measured;
  run.stages[0].hash.finite = false;
  const std::string line = Record(run, run.stages[0]).line();
  EXPECT_TRUE(has(line, R"("bytes":{"verdict":"not measured","holds":null,)")) << line;
  EXPECT_TRUE(has(line, R"("hash":null)"));
  EXPECT_TRUE(has(line, R"("injected":null)"));
  run.settings.injected = "bitflip";
  EXPECT_TRUE(has(Record(run, run.stages[0]).line(), R"("injected":"bitflip")"));
}

TEST(BenchRecord, HoldsRatesOfTheMedianSampleAndTheOutermostAndEverySample) {
  const BenchResult bench = sample_bench();
  const std::string line = Record(bench, bench.run.stages[0]).line();
  EXPECT_TRUE(line.starts_with(R"({"schema":"zeroproof/bench-stage/1",)")) << line;
  EXPECT_TRUE(has(line, R"("rounds":2,"warm_up_steps":2,"timed_steps":2,)")) << line;
  // 2048 tokens in 0.5, 0.25, 0.125 and 0.0625 s
  EXPECT_TRUE(has(line, R"("tokens_per_s":10922.666666666666,"tokens_per_s_least":4096.0,)"
                        R"("tokens_per_s_most":32768.0,"step_time_s":0.1875,)"))
      << line;
  EXPECT_TRUE(has(line, R"("exposed_s":0.09375,"overlap":0.75,)")) << line;
  EXPECT_TRUE(has(
      line, R"("samples":[{"round":0,"step":2,"time_s":0.5,"exposed_s":0.25,"hidden_s":0.75},{"round":0,)"))
      << line;
}

TEST(BenchRecord, HoldsNoRateOfARefutedStageButItsSamples) {
  BenchResult bench = sample_bench();
  refute(bench.run.stages[1], Claim::work, "step 3: adamw: expected 4, counted 5");
  const std::string line = Record(bench, bench.run.stages[1]).line();
  EXPECT_TRUE(has(line, R"("tokens_per_s":null,"tokens_per_s_least":null,"tokens_per_s_most":null,)"
                        R"("step_time_s":null,"exposed_s":null,"overlap":null,)"))
      << line;
  EXPECT_TRUE(has(line, R"("time_s":0.0625)")) << line;
  EXPECT_TRUE(has(line, R"("hash":null)")) << line;
  bench.run.stages[0].verdicts[2] = Verdict{};
  EXPECT_THROW(Record(bench, bench.run.stages[0]), Error);
}

TEST(BenchRecord, SaysNullWhereTransfersHaveNoClock) {
  BenchResult bench = sample_bench();
  bench.run.stages[0].samples[3].transfers_timed = false;
  const std::string line = Record(bench, bench.run.stages[0]).line();
  EXPECT_TRUE(has(line, R"("exposed_s":null,"overlap":null,)")) << line;
  EXPECT_TRUE(has(line, R"("time_s":0.0625,"exposed_s":null,"hidden_s":null})")) << line;
  EXPECT_FALSE(has(line, R"("tokens_per_s":null)"));
}

TEST(Record, NamesTheGradeOfItsBitsAndWhoMadeTheProducts) {
  RunResult run = sample_run();
  run.settings.grade = "ordered";
  EXPECT_TRUE(has(Record(run, run.stages[0]).line(), R"("evidence":[],"grade":"ordered"})"));
  EXPECT_TRUE(has(Record(run, run.stages[0]).line(), R"("products":null)"));
  run.settings.math = "vendor";
  run.settings.grade = "vendor: cuBLASLt 13.1.0 on a device";
  run.stages[0].choices = {"64 x 48 x 32 NN bf16: algorithm 1"};
  const std::string line = Record(run, run.stages[0]).line();
  EXPECT_TRUE(has(line, R"("grade":"vendor: cuBLASLt 13.1.0 on a device")")) << line;
  EXPECT_TRUE(has(line, R"("math":"vendor")")) << line;
  EXPECT_TRUE(has(line, R"("products":["64 x 48 x 32 NN bf16: algorithm 1"])")) << line;
}

TEST(Record, SaysWhatCrossedOnlyWhereThereAreNodes) {
  RunResult run = sample_run();
  run.stages[0].crossing = {4321};
  EXPECT_NE(Record(run, run.stages[0]).line().find(R"("crossing_bytes":null)"), std::string::npos);
  run.settings.nodes = 2;
  EXPECT_NE(Record(run, run.stages[0]).line().find(R"("crossing_bytes":4321)"), std::string::npos);
}

TEST(Record, PutsWhatIsHeldBesideWhatWasPredictedInEveryCategoryOfEither) {
  const RunResult run = sample_run();
  const std::string line = Record(run, run.stages[0]).line();
  EXPECT_TRUE(has(line, R"("held_at_peak_bytes":{"params":{"held":100,"predicted":100},)"
                        R"("gathered":{"held":7,"predicted":0},"bucket":{"held":0,"predicted":9}})"))
      << line;
}

TEST(Record, IsOneLineOfValidTextWhateverStringsHold) {
  RunResult run = sample_run();
  run.settings.data = "a\nb\"\xff";
  run.stages[0].losses = {1.0 / 0.0};
  EXPECT_FALSE(has(Record(run).line(), "\n"));
  EXPECT_FALSE(has(Record(run).line(), "\xff"));
  EXPECT_TRUE(has(Record(run, run.stages[0]).line(), R"("losses":[null])"));
}

TEST(RecordFile, HoldsTheRunAndThenEveryStage) {
  const Folder folder;
  const std::string path = folder.file("run.jsonl");
  write_records(path, Existing::refuse, sample_run());
  const std::vector<std::string> lines = lines_of(text_of(path));
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_TRUE(has(lines[0], "zeroproof/run/1"));
  EXPECT_TRUE(has(lines[6], R"("stage":"zero3-keep")"));
}

TEST(RecordFile, IsNeverOverwrittenUnasked) {
  const Folder folder;
  const std::string path = folder.file("run.jsonl");
  std::ofstream(path) << "precious";
  const std::string why = refusal([&] { write_records(path, Existing::refuse, sample_run()); });
  EXPECT_EQ(why, "--out " + path + ": exists and is left alone; name a new file, or add --overwrite");
  EXPECT_EQ(text_of(path), "precious");
  write_records(path, Existing::overwrite, sample_run());
  EXPECT_TRUE(has(text_of(path), "zeroproof/run/1"));
  EXPECT_FALSE(has(text_of(path), "precious"));
}

TEST(RecordFile, IsCheckedWithoutBeingTouched) {
  const Folder folder;
  const std::string path = folder.file("run.jsonl");
  check_writable(path, Existing::refuse);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(
      has(refusal([&] { check_writable(folder.file("none/run.jsonl"), Existing::refuse); }), "no folder"));
  EXPECT_TRUE(has(refusal([&] { check_writable(folder.file("."), Existing::overwrite); }), "is a directory"));
  EXPECT_TRUE(
      has(refusal([&] { check_writable("/proc/zeroproof/run.jsonl", Existing::refuse); }), "--out /proc/"));
}

TEST(RecordFile, ThatCannotTakeTheRecordIsAnErrorNotALoss) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  EXPECT_TRUE(has(refusal([] { write_records("/dev/full", Existing::overwrite, sample_run()); }),
                  "cannot be written"));
}

TEST(Environment, SaysWhereARunTookPlaceAndRecordsNoOtherVariable) {
  setenv("ZP_SECRET", "hunter2", 1);
  setenv("OMP_NUM_THREADS", "3", 1);
  RunSettings settings;
  describe_host(settings);
  unsetenv("ZP_SECRET");
  unsetenv("OMP_NUM_THREADS");
  EXPECT_FALSE(settings.host.empty());
  EXPECT_FALSE(settings.compiler.empty());
  EXPECT_GE(settings.cores, 1);
  EXPECT_GT(settings.memory_available.n, int64_t{1} << 20);
  EXPECT_EQ(settings.start_time.size(), std::string("2024-05-06T07:08:09Z").size());
  EXPECT_EQ(settings.env["OMP_NUM_THREADS"], "3");
  EXPECT_FALSE(settings.env.contains("ZP_SECRET"));
}

TEST(Environment, ReadsAvailableMemoryInKibibytes) {
  EXPECT_EQ(parse_available("MemTotal:  99 kB\nMemAvailable:   12345 kB\nBuffers: 1 kB\n").n, 12345 * 1024);
  EXPECT_EQ(parse_available("MemTotal: 99 kB\n").n, 0);
}

TEST(Environment, GivesEveryRankAShareOfTheCores) {
  const int cores = default_threads(1);
  EXPECT_GE(cores, 1);
  EXPECT_EQ(default_threads(cores), 1);
  EXPECT_EQ(default_threads(1000), 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3", 1);
  EXPECT_EQ(local_ranks(8), 3);
  unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  EXPECT_EQ(local_ranks(8), 8);
}

TEST(Progress, IsALineThatIsGoneAtTheEndAndOnlyOnATerminal) {
  const Folder folder;
  const std::string path = folder.file("terminal");
  std::FILE* stream = std::fopen(path.c_str(), "w");
  {
    Progress silent(Progress::Display::automatic, stream);
    silent.show("nothing of this");
    Progress progress(Progress::Display::on, stream);
    progress.show("zero1, step 2 of 3");
  }
  std::fclose(stream);
  EXPECT_EQ(text_of(path), "\rzero1, step 2 of 3\033[K\r\033[K");
}

}  // namespace
}  // namespace zp
