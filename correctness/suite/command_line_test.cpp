// Every bad input is one clear line with its exit code; every good one arrives where it belongs; help fits a
// screen.
#include "harness/suite/command_line.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "harness/suite/inject.hpp"
#include "harness/suite/stages.hpp"

namespace zp {
namespace {

std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

VerifyOptions verify_of(const std::string& line, const Launch& launch = {}) {
  return std::get<VerifyOptions>(parse_command_line(words("verify " + line), launch));
}

PlanOptions plan_of(const std::string& line) {
  return std::get<PlanOptions>(parse_command_line(words("plan " + line), {}));
}

struct Bad {
  std::string line;
  std::string says;   // a part of the message: what is wrong and where
  std::string right;  // another part: what would be right
  Exit exit = Exit::usage;
  Launch launch = {};
};

std::ostream& operator<<(std::ostream& out, const Bad& bad) { return out << bad.line; }

class BadInput : public testing::TestWithParam<Bad> {};

TEST_P(BadInput, IsOneClearLineAndItsExitCode) {
  const Bad& bad = GetParam();
  try {
    parse_command_line(words(bad.line), bad.launch);
    ADD_FAILURE() << "was accepted: zeroproof " << bad.line;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), bad.exit) << message;
    EXPECT_NE(message.find(bad.says), std::string::npos) << message;
    EXPECT_NE(message.find(bad.right), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Command, BadInput,
    testing::Values(Bad{"", "no command", "verify, bench, plan and devices"},
                    Bad{"verfy", "'verfy' is no command", "verify, bench, plan and devices"},
                    Bad{"--bogus", "'--bogus' is no command", "verify, bench, plan and devices"},
                    Bad{"net", "'net' is no command", "verify, bench, plan and devices"},
                    Bad{"bench --golden x.json", "'--golden' is no option", "zeroproof bench --help"},
                    Bad{"bench --dump x", "'--dump' is no option", "zeroproof bench --help"},
                    Bad{"verify -n 3", "'-n' is no option", "zeroproof verify --help"},
                    Bad{"verify --bogus", "'--bogus' is no option", "zeroproof verify --help"},
                    Bad{"verify --bogus=3", "'--bogus=3' is no option", "--help"},
                    Bad{"verify loose", "'loose' is no option", "--help"},
                    Bad{"plan --steps 3", "'--steps' is no option", "zeroproof plan --help"}));

INSTANTIATE_TEST_SUITE_P(
    Model, BadInput,
    testing::Values(
        Bad{"verify --freeze heads", "has no unit \"heads\"", "embeddings, block.0, block.1, block.2, head"},
        Bad{"verify --unit-blocks 2 --freeze block.0", "has no unit \"block.0\"", "blocks.0-1, block.2"},
        Bad{"verify --freeze embeddings,block.0,block.1,block.2,head", "every unit is frozen",
            "leave one out"},
        Bad{"verify --freeze head,head", "--freeze", "names head twice"},
        Bad{"verify --unit-blocks 4", "--unit-blocks '4'", "from 1 to 3"},
        Bad{"verify --model synthetic --tied", "--tied", "leave it out"},
        Bad{"verify --model synthetic --unit-blocks 2", "--unit-blocks", "leave it out"},
        Bad{"verify --keep -1", "--keep '-1'", "from 0 to 1000"},
        Bad{"verify --ranks 4 --ranks-per-node 3", "does not divide 4 ranks", "equally many"},
        Bad{"verify --model layers=1,width=4,heads=1,positions=4,vocabulary=256,tied=maybe", "'tied=maybe'",
            "tied=yes"},
        Bad{"verify --model layers=1,width=4,heads=1,positions=4,vocabulary=256,tied=no,tied=no", "'tied=no'",
            "each once"},
        Bad{"plan --params 7e9 --ranks 2 --tied", "--tied", "--model"},
        Bad{"plan --params 7e9 --ranks 2 --freeze head", "--freeze", "--model"},
        Bad{"verify --model /nowhere/config.json", "No such file", "config.json of a GPT-2"}));

INSTANTIATE_TEST_SUITE_P(
    Number, BadInput,
    testing::Values(
        Bad{"verify --ranks 0", "--ranks '0'", "from 1 to 1024"},
        Bad{"verify --ranks -1", "--ranks '-1'", "from 1 to 1024"},
        Bad{"verify --ranks=-1", "--ranks '-1'", "from 1 to 1024"},
        Bad{"verify --ranks 99999", "--ranks '99999'", "from 1 to 1024"},
        Bad{"verify --ranks 99999999999999999999999", "--ranks", "from 1 to 1024"},
        Bad{"verify --ranks four", "--ranks 'four'", "whole number"},
        Bad{"verify --ranks 2.5", "--ranks '2.5'", "whole number"},
        Bad{"verify --ranks 4x", "--ranks '4x'", "whole number"},
        Bad{"verify --ranks", "--ranks", "required"}, Bad{"verify --ranks 2 --ranks 4", "--ranks", "2 times"},
        Bad{"verify --steps 0", "--steps '0'", "from 1 to"},
        Bad{"verify --steps -3", "--steps '-3'", "from 1 to"},
        Bad{"verify --micro-batches 0", "--micro-batches '0'", "from 1 to"},
        Bad{"verify --micro-batch-size 0", "--micro-batch-size '0'", "from 1 to"},
        Bad{"verify --seq 0", "--seq '0'", "from 1 to"},
        Bad{"verify --threads 0", "--threads '0'", "from 1 to"},
        Bad{"verify --timeout 0", "--timeout '0'", "above 0"},
        Bad{"verify --timeout 1e9", "--timeout '1e9'", "at most 86400"},
        Bad{"verify --lr 0", "--lr '0'", "above 0"}, Bad{"verify --lr -0.1", "--lr '-0.1'", "above 0"},
        Bad{"verify --lr nan", "--lr 'nan'", "above 0"}, Bad{"verify --lr inf", "--lr 'inf'", "at most"},
        Bad{"verify --clip -1", "--clip '-1'", "at least 0"},
        Bad{"verify --weight-decay -1", "--weight-decay '-1'", "at least 0"},
        Bad{"verify --betas 0.9", "--betas '0.9'", "two numbers"},
        Bad{"verify --betas 0.9,1", "--betas '1'", "at most 0.999999"},
        Bad{"verify --betas 0.9,-0.1", "--betas '-0.1'", "at least 0"},
        Bad{"verify --momentum 1 --optimizer sgd", "--momentum '1'", "at most 0.999999"},
        Bad{"bench -n 0", "--steps '0'", "from 1 to"}, Bad{"bench -w -1", "--warm-up '-1'", "from 0 to"},
        Bad{"bench --rounds 0", "--rounds '0'", "from 1 to 10000"},
        Bad{"verify --seed -1", "--seed '-1'", "2^64"}));

INSTANTIATE_TEST_SUITE_P(
    Arithmetic, BadInput,
    testing::Values(
        Bad{"verify --math exact --device emulated", "--math 'exact'", "ordered or vendor"},
        Bad{"verify --device emulated --transport mpi --ranks 1 --mpi-buffers aware", "--mpi-buffers 'aware'",
            "auto or staged"},
        Bad{"verify --device emulated --mpi-buffers staged", "--mpi-buffers", "with --transport mpi"},
        Bad{"verify --transport mpi --ranks 1 --mpi-buffers staged", "--mpi-buffers", "cuda and emulated"},
        Bad{"verify --math vendor", "--math vendor", "cuda and emulated", Exit::unavailable},
        Bad{"bench --math vendor --device cpu", "--math vendor", "cuda and emulated", Exit::unavailable},
        Bad{"verify --device emulated --math vendor --dump there", "--dump", "ordered arithmetic"},
        Bad{"verify --device emulated --math vendor --write-golden g.json", "--write-golden",
            "ordered arithmetic"}));

INSTANTIATE_TEST_SUITE_P(
    Name, BadInput,
    testing::Values(
        Bad{"verify --stages zero4", "'zero4'", "zero3-keep"},
        Bad{"verify --stages ddp,", "''", "zero3-keep"},
        Bad{"verify --stages ddp,ddp", "ddp is named twice", "--stages"},
        Bad{"verify --recipe fp16", "--recipe 'fp16'", "bf16-fp32grad, bf16, fp32"},
        Bad{"verify --optimizer lion", "--optimizer 'lion'", "adamw and sgd"},
        Bad{"verify --accumulate heap", "--accumulate 'heap'", "fold or sequential"},
        Bad{"plan --params 7e9 --ranks 4 --optimizer lion", "--optimizer 'lion'", "adamw and sgd"},
        Bad{"verify --wire fp16", "--wire 'fp16'", "fp32 or i64"},
        Bad{"verify --wire i64 --recipe bf16", "--wire i64", "fp32 gradients"},
        Bad{"plan --params 1e9 --ranks 4 --wire fp32 --recipe bf16", "--wire 'fp32'", "goes with bf16"},
        Bad{"verify --model huge", "huge", "tiny, small, gpt2, synthetic"},
        Bad{"verify --transport carrier-pigeon", "'carrier-pigeon'", "threads"},
        Bad{"verify --algorithm star", "'star'", "halving, direct, ring and native"},
        Bad{"verify --inject gremlin", "gremlin", "bitflip"},
        Bad{"verify --inject bitflip:colour=3", "colour", "step, rank, stage"},
        Bad{"verify --inject bitflip:rank=4 --ranks 4", "rank", "0 to 3"},
        Bad{"plan --params 7e9 --ranks 4 --recipe fp16", "--recipe 'fp16'", "bf16-fp32grad, bf16"}));

INSTANTIATE_TEST_SUITE_P(
    Combination, BadInput,
    testing::Values(
        Bad{"verify --ranks 3 --micro-batches 8", "8: is no multiple of 3 ranks", "9 would be"},
        Bad{"verify --ranks 8 --micro-batches 4", "4: is no multiple of 8 ranks", "8 would be"},
        Bad{"verify --model layers=2,width=50,heads=3,positions=8,vocabulary=256",
            "3 heads do not divide width 50", "multiple"},
        Bad{"verify --model layers=2,width=48,heads=3,positions=8", "lacks vocabulary", "--model"},
        Bad{"verify --model layers=2,depth=48", "'depth=48'", "layers, width, heads"},
        Bad{"verify --model layers=0,width=48,heads=3,positions=8,vocabulary=256", "layers '0'", "from 1 to"},
        Bad{"verify --model small --seq 257", "--seq 257", "256 positions"},
        Bad{"verify --model synthetic --data /etc/hostname", "reads no data", "leave it out"},
        Bad{"verify --data /etc/hostname --model layers=1,width=8,heads=1,positions=8,vocabulary=100",
            "vocabulary of 256", "has 100"},
        Bad{"verify --ranks 3 --algorithm halving", "there are 3", "direct", Exit::unavailable},
        Bad{"plan --params 7e9 --ranks 3 --algorithm halving", "there are 3", "direct", Exit::unavailable},
        Bad{"plan --model tiny --ranks 4 --algorithm native", "--algorithm native", "not known"},
        Bad{"verify --overwrite", "--overwrite", "--out"},
        Bad{"verify --momentum 0.5", "--momentum", "--optimizer sgd"},
        Bad{"verify --ranks 2 --micro-batches 2050 --accumulate sequential", "up to 1024", "there are 1025"},
        Bad{"verify --optimizer sgd --betas 0.9,0.95", "--betas", "--optimizer adamw"},
        Bad{"verify --out /nowhere/at/all.jsonl", "--out /nowhere/at/all.jsonl", "no folder /nowhere/at"},
        Bad{"verify --out /", "is a directory", "name a file"}));

INSTANTIATE_TEST_SUITE_P(
    Launched, BadInput,
    testing::Values(
        Bad{"verify --ranks 3", "--ranks 3", "started 4 processes", Exit::usage, {.world = 4, .rank = 2}},
        Bad{"verify --transport threads",
            "each believe they are alone",
            "use mpi",
            Exit::usage,
            {.world = 4, .rank = 0}},
        Bad{"verify --ranks 4 --transport mpi", "4 ranks need a launcher", "mpirun -n 4"},
        Bad{"verify --micro-batches 9",
            "9: is no multiple of 4 ranks",
            "12 would be",
            Exit::usage,
            {.world = 4, .rank = 1}},
        Bad{"verify --algorithm halving",
            "there are 6",
            "direct",
            Exit::unavailable,
            {.world = 6, .rank = 5}}));

INSTANTIATE_TEST_SUITE_P(
    Plan, BadInput,
    testing::Values(Bad{"plan --ranks 4", "--params", "--model"},
                    Bad{"plan --params 7e9", "--ranks", "--ranks 4"},
                    Bad{"plan --params 7e9 --model small --ranks 4", "--params", "either"},
                    Bad{"plan --params 0 --ranks 4", "--params '0'", "at least 1"},
                    Bad{"plan --params 1e99 --ranks 4", "--params '1e99'", "at most 10000000000000"},
                    Bad{"plan --params 7e9 --ranks 4 --micro-steps 0", "--micro-steps '0'", "from 1"},
                    Bad{"plan --params 7e9 --ranks 4 --seq 8", "--seq", "--model"},
                    Bad{"plan --params 7e9 --ranks 4 --accumulate fold", "--accumulate", "--model"},
                    Bad{"plan --model layers=4096,width=131072,heads=1,positions=1,vocabulary=2 --ranks 4",
                        "parameters", "--params"}));

TEST(CommandLine, GivesEveryOptionItsPlace) {
  const VerifyOptions o = verify_of(
      "--ranks 2 --stages zero3,ddp --model small --data /etc/hostname --steps 5 --micro-batches 6 "
      "--micro-batch-size 7 --seq 11 --recipe bf16 --clip 0.5 --lr 0.01 --betas 0.8,0.88 --weight-decay 0.2 "
      "--transport threads --algorithm halving --threads 3 --timeout 12.5 --seed 18446744073709551615 "
      "--inject bitflip:step=1,rank=0 --inject extra-message");
  EXPECT_EQ(o.ranks, 2);
  EXPECT_EQ(o.stages, (std::vector<std::string>{"zero3", "ddp"}));
  EXPECT_EQ(o.model.name, "small");
  EXPECT_EQ(o.model.width, 384);
  EXPECT_EQ(o.data, "/etc/hostname");
  EXPECT_EQ(o.steps, 5);
  EXPECT_EQ(o.micro_batches, 6);
  EXPECT_EQ(o.micro_batch_size, 7);
  EXPECT_EQ(o.sequence, 11);
  EXPECT_EQ(o.recipe, "bf16");
  EXPECT_EQ(o.clip, 0.5);
  EXPECT_EQ(o.lr, 0.01F);
  EXPECT_EQ(o.beta1, 0.8F);
  EXPECT_EQ(o.beta2, 0.88F);
  EXPECT_EQ(o.weight_decay, 0.2F);
  EXPECT_EQ(o.transport, "threads");
  EXPECT_EQ(o.algorithm, Algorithm::halving);
  EXPECT_EQ(o.threads, 3);
  EXPECT_EQ(o.timeout_s, 12.5);
  EXPECT_EQ(o.seed, 18446744073709551615U);
  EXPECT_EQ(o.inject, (std::vector<std::string>{"bitflip:step=1,rank=0", "extra-message"}));
}

TEST(CommandLine, LetsMpiSayWhetherItTakesTheMemoryOfGpus) {
  const std::string mpi = "--device cuda --transport mpi --ranks 1";
  EXPECT_EQ(verify_of(mpi + " --mpi-buffers auto").mpi_buffers, verify_of(mpi).mpi_buffers);
  EXPECT_EQ(verify_of(mpi + " --mpi-buffers staged").mpi_buffers, MpiBuffers::staged);
}

TEST(CommandLine, HasDocumentedDefaults) {
  EXPECT_EQ(verify_of("--wire bf16 --recipe bf16").wire, verify_of("").wire);
  EXPECT_EQ(verify_of("--wire i64 --algorithm ring --ranks 3").wire, GradientWire::i64);
  const VerifyOptions o = verify_of("");
  EXPECT_EQ(o.ranks, 4);
  EXPECT_EQ(o.transport, "threads");
  EXPECT_EQ(o.stages.size(), stages().size());
  EXPECT_EQ(o.model.name, "tiny");
  EXPECT_EQ(o.recipe, "bf16-fp32grad");
  EXPECT_EQ(o.micro_batches, 0);
  EXPECT_FALSE(o.algorithm);
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(verify_of("--stages all").stages, o.stages);
}

TEST(CommandLine, TakesAnOptimizerAndAWayToAccumulate) {
  const VerifyOptions none = verify_of("");
  EXPECT_EQ(none.optimizer, Method::adamw);
  EXPECT_EQ(none.accumulate, Accumulate::fold);
  const VerifyOptions o = verify_of("--optimizer sgd --momentum 0.75 --accumulate sequential");
  EXPECT_EQ(o.optimizer, Method::sgd);
  EXPECT_EQ(o.momentum, 0.75F);
  EXPECT_EQ(o.accumulate, Accumulate::sequential);
  EXPECT_EQ(plan_of("--params 7e9 --ranks 4 --optimizer sgd").optimizer, Method::sgd);
  EXPECT_EQ(plan_of("--model tiny --ranks 4 --accumulate sequential").accumulate, Accumulate::sequential);
}

TEST(CommandLine, TakesTheRanksOfItsLauncher) {
  EXPECT_EQ(verify_of("", {.world = 3, .rank = 1}).ranks, 3);
  EXPECT_EQ(verify_of("", {.world = 3, .rank = 1}).transport, "mpi");
  EXPECT_EQ(verify_of("--ranks 3", {.world = 3, .rank = 0}).ranks, 3);
  EXPECT_EQ(verify_of("--transport mpi").ranks, 1);
  const VerifyOptions threads = verify_of("--ranks 4 --transport threads", {.world = 1, .rank = 0});
  EXPECT_EQ(threads.ranks, 4) << "one launched process may hold threads";
}

TEST(CommandLine, TakesAModelByItsShapes) {
  const VerifyOptions o = verify_of("--model layers=2,width=48,heads=3,positions=32,vocabulary=300 --seq 32");
  EXPECT_EQ(o.model.layers, 2);
  EXPECT_EQ(o.model.width, 48);
  EXPECT_EQ(o.model.heads, 3);
  EXPECT_EQ(o.model.positions, 32);
  EXPECT_EQ(o.model.vocabulary, 300);
  EXPECT_EQ(o.model.architecture, Architecture::gpt);
}

TEST(CommandLine, TakesWhatIsTiedFrozenKeptAndPutTogether) {
  const VerifyOptions o = verify_of(
      "--tied --freeze head,block.2 --unit-blocks 2 --keep 3 --ranks 6 --ranks-per-node 3 --micro-batches 6");
  EXPECT_TRUE(o.model.tied);
  EXPECT_EQ(o.model.frozen, (std::vector<std::string>{"head", "block.2"}));
  EXPECT_EQ(o.model.unit_blocks, 2);
  EXPECT_EQ(o.keep, 3);
  EXPECT_EQ(o.ranks_per_node, 3);
  EXPECT_TRUE(verify_of("--model layers=1,width=4,heads=1,positions=4,vocabulary=9,tied=yes").model.tied);
  EXPECT_EQ(plan_of("--model gpt2 --ranks 2 --keep 4 --freeze embeddings").keep, 4);
}

TEST(CommandLine, RefusesARecordFileThatExistsUnlessToldOtherwise) {
  std::string path = (std::filesystem::temp_directory_path() / "zp_out_XXXXXX").string();
  close(mkstemp(path.data()));
  EXPECT_THROW(verify_of("--out " + path), Error);
  EXPECT_THROW(plan_of("--params 7e9 --ranks 4 --out " + path), Error);
  const VerifyOptions o = verify_of("--overwrite --out " + path);
  EXPECT_EQ(o.out, path);
  EXPECT_EQ(o.existing, Existing::overwrite);
  std::filesystem::remove(path);
  EXPECT_EQ(verify_of("--out " + path).existing, Existing::refuse);
  EXPECT_FALSE(std::filesystem::exists(path)) << "checking leaves nothing behind";
}

BenchOptions bench_of(const std::string& line) {
  return std::get<BenchOptions>(parse_command_line(words("bench " + line), {}));
}

TEST(CommandLine, TimesStepsInRounds) {
  const BenchOptions none = bench_of("");
  EXPECT_EQ(none.warm_up, 2);
  EXPECT_EQ(none.timed(), 3);
  EXPECT_EQ(none.rounds, 5);
  EXPECT_EQ(none.job.steps, 5) << "those that are not timed are trained as well";
  EXPECT_EQ(none.job.stages.size(), stages().size());
  const BenchOptions o = bench_of("-n 7 -w 0 --rounds 2 --model small --ranks 2 --stages zero3 --overlap on");
  EXPECT_EQ(o.timed(), 7);
  EXPECT_EQ(o.warm_up, 0);
  EXPECT_EQ(o.rounds, 2);
  EXPECT_EQ(o.job.model.name, "small");
  EXPECT_EQ(o.job.stages, std::vector<std::string>{"zero3"});
  EXPECT_EQ(o.job.schedule.overlap, Overlap::on);
  EXPECT_EQ(o.job.args.front(), "bench");
  EXPECT_EQ(bench_of("--steps 4 --warm-up 1").timed(), 4);
}

// On a GPU slow products would hide all else.
TEST(CommandLine, ComputesAsAskedForAndTimesAGpuWithItsVendorsProducts) {
  for (const char* device : {"cpu", "cuda", "emulated"})
    EXPECT_EQ(verify_of(std::string("--device ") + device).math, Math::ordered);
  EXPECT_EQ(verify_of("--device emulated --math vendor").math, Math::vendor);
  EXPECT_EQ(bench_of("--device cuda").job.math, Math::vendor);
  EXPECT_EQ(bench_of("--device cuda --math ordered").job.math, Math::ordered);
  EXPECT_EQ(bench_of("--device emulated").job.math, Math::ordered);
  EXPECT_EQ(bench_of("").job.math, Math::ordered);
}

TEST(CommandLine, PlansForParametersOrAModel) {
  const PlanOptions sized = plan_of("--params 7e9 --ranks 4 --recipe bf16 --micro-steps 2");
  EXPECT_EQ(sized.parameters, 7e9);
  EXPECT_EQ(sized.ranks, 4);
  EXPECT_EQ(sized.recipe, "bf16");
  EXPECT_EQ(sized.micro_steps, 2);
  EXPECT_FALSE(sized.model);
  const PlanOptions shaped = plan_of("--model small --ranks 2 --seq 128 --micro-batch-size 4 --threads 2");
  EXPECT_EQ(shaped.model->name, "small");
  EXPECT_EQ(shaped.sequence, 128);
  EXPECT_EQ(shaped.micro_batch_size, 4);
  EXPECT_EQ(shaped.threads, 2);
}

class Help : public testing::TestWithParam<const char*> {};

TEST_P(Help, FitsAScreenAndShowsAnExample) {
  const Invocation invocation = parse_command_line(words(GetParam()), {});
  const std::string text = std::get<Print>(invocation).text;
  std::istringstream stream(text);
  int lines = 0;
  for (std::string line; std::getline(stream, line); ++lines) EXPECT_LE(line.size(), 100U) << line;
  EXPECT_LE(lines, 48) << text;
  EXPECT_NE(text.find("Example: "), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Of, Help,
                         testing::Values("--help", "verify --help", "bench --help", "plan --help",
                                         "verify -h", "verify --ranks 0 --help"));

TEST(Help, NamesEveryStageAndFault) {
  const std::string text = std::get<Print>(parse_command_line(words("verify --help"), {})).text;
  for (const StageRow& row : stages()) EXPECT_NE(text.find(row.name()), std::string::npos) << row.name();
  for (const FaultRow& row : fault_table()) EXPECT_NE(text.find(row.name), std::string::npos) << row.name;
}

TEST(Version, IsOneLine) {
  const std::string text = std::get<Print>(parse_command_line({"--version"}, {})).text;
  EXPECT_TRUE(text.starts_with("zeroproof 0.")) << text;
  EXPECT_EQ(text.find('\n'), text.size() - 1);
}

}  // namespace
}  // namespace zp
