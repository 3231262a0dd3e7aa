// Golden files as a user meets them: they judge every layout that shares their bits, and name the rank and
// the micro-batch that went wrong; runs that they are not for are refused (damage: golden_damage_test.cpp).
#include <utility>

#include "correctness/suite/golden_lab.hpp"

namespace zp {
namespace {

// Every build ends on the bits that this tree was committed with.
TEST_F(Executable, EndsOnTheBitsOfTheGoldenFiles) {
  const std::string golden = "ZP verify --stages zero1,zero3 --golden " ZP_SOURCE "/results/golden/tiny-";
  for (const std::string run : {"bf16-fp32grad.json --ranks 2", "bf16.json --recipe bf16 --ranks 4",
                                "i64.json --wire i64 --ranks 3"}) {
    const Outcome good = shell(golden + run);
    EXPECT_EQ(good.code, 0) << good.err << good.out;
  }
}

TEST_F(Golden, JudgesEveryLayoutThatSharesItsBits) {
  for (const std::string options : {"--ranks 1", "--ranks 2", "--ranks 4 --algorithm direct --steps 1"}) {
    const Outcome good = judged(text_, options + " --overwrite --out " + file("run.jsonl"));
    EXPECT_EQ(good.code, 0) << good.err << good.out;
    EXPECT_NE(good.out.find("\nbits by golden file "), std::string::npos) << good.out;
    const std::string record = text_of(file("run.jsonl"));
    EXPECT_NE(record.find("golden.json\",\"golden_written\":null"), std::string::npos) << record;
    EXPECT_NE(record.find("\"reference_time_s\":null"), std::string::npos) << "no reference was run";
  }
  EXPECT_NE(judged(text_).out.find("2 steps of 4 micro-batches"), std::string::npos);
}

TEST_F(Golden, RefutesBitsByADigitOfAnyHashInAnyStep) {
  for (const int step : {0, 1}) {
    for (const auto& [key, says] :
         {std::pair{"micro_batches", "rank 0 (place 0): own gradient of micro-batch 0"},
          {"gradients", "averaged gradient of "},
          {"parameters", "parameters of "},
          {"masters", "masters of "},
          {"first_moments", "first moments of "},
          {"second_moments", "second moments of "},
          {"hash", "hash of the whole state"}}) {
      const Outcome bad = judged(with_other_hash(key, step));
      EXPECT_EQ(bad.code, 7) << key << " of step " << step << "\n" << bad.err << bad.out;
      const size_t named = bad.out.find("zero1: bits REFUTED\n  step " + std::to_string(step) + ", zero1, ");
      EXPECT_NE(named, std::string::npos) << bad.out;
      EXPECT_NE(bad.out.find(says, named), std::string::npos) << says << "\n" << bad.out;
    }
  }
  EXPECT_EQ(judged(with_other_hash("initial_parameters", 0)).code, 7);
}

TEST_F(Golden, NamesTheRankThatComputedAMicroBatchWrongly) {
  const Outcome bad = judged(text_, "--ranks 2 --inject flip-gradient:step=1,micro-batch=1");
  EXPECT_EQ(bad.code, 7) << bad.err;
  EXPECT_NE(bad.out.find("step 1, zero1, rank 1 (place 1): own gradient of micro-batch 1: got"),
            std::string::npos)
      << bad.out;
  EXPECT_NE(bad.out.find("step 1, zero2, rank 0 (place 0): own gradient of micro-batch 1: got"),
            std::string::npos)
      << bad.out;
}

TEST_F(Executable, NamesRankAndMicroBatchOfABitflipAtThreeRanks) {
  const Outcome bad = shell("ZP verify --ranks 3 --model tiny --wire i64 --golden " ZP_SOURCE
                            "/results/golden/tiny-i64.json --inject bitflip:step=1,micro-batch=5");
  EXPECT_EQ(bad.code, 7) << bad.err;
  for (const std::string says :
       {"ddp, rank 2 (place 2)", "zero1, rank 2 (place 2)", "zero1-allreduce, rank 2 (place 2)",
        "zero2, rank 1 (place 1)", "zero3, rank 1 (place 1)", "zero3-keep, rank 1 (place 1)"}) {
    const std::string line = "REFUTED\n  step 1, " + says + ": own gradient of micro-batch 5: got";
    EXPECT_NE(bad.out.find(line), std::string::npos) << line << "\n" << bad.out;
  }
}

TEST_F(Golden, RefusesEveryFieldThatFixesTheArithmetic) {
  for (const auto& [options, says] :
       {std::pair{"--seed 2", "seed is 1 in the file and 2 in this run"},
        {"--recipe bf16", "recipe is \"bf16-fp32grad\" in the file and \"bf16\" in this run"},
        {"--optimizer sgd", "optimizer.name is \"adamw\""},
        {"--lr 0.5", "optimizer.lr is"},
        {"--betas 0.9,0.5", "optimizer.beta2 is"},
        {"--weight-decay 0", "optimizer.weight_decay is"},
        {"--clip 0.5", "clip is 1.0 in the file and 0.5 in this run"},
        {"--steps 3", "steps is 2 in the file and 3 in this run"}}) {
    const Outcome bad = judged(text_, std::string("--ranks 2 ") + options);
    EXPECT_EQ(bad.code, 6) << options << bad.out;
    EXPECT_EQ(lines_in(bad.err), 1) << bad.err;
    EXPECT_NE(bad.err.find(says), std::string::npos) << bad.err;
  }
  const std::string golden = " --golden " + file("golden.json");
  for (const auto& [options, says] :
       {std::pair{"--model synthetic --ranks 2 --micro-batches 8", "micro_batches is 4"},
        {"--model synthetic --ranks 3", "no multiple of the 3 ranks"},
        {"--model tiny --ranks 2", "model.architecture is"}}) {
    const Outcome bad = shell(std::string("ZP verify ") + options + golden);
    EXPECT_EQ(bad.code, 6) << options << bad.out;
    EXPECT_NE(bad.err.find(says), std::string::npos) << bad.err;
  }
}

TEST_F(Golden, BelongsToItsLayoutWhereTheBitsDo) {
  const std::string run = "ZP verify --model tiny --recipe bf16 --micro-batches 16 ";
  const std::string golden = " --golden " + file("bf16.json");
  EXPECT_EQ(shell(run + "--ranks 4 --stages zero2,zero3 --steps 1 --write-golden " + file("bf16.json")).code,
            0);
  EXPECT_EQ(shell(run + "--ranks 4 --stages zero3" + golden).code, 0);
  for (const auto& [options, says] :
       {std::pair{"--ranks 2 --stages zero2", "ranks is 4 in the file and 2 in this run"},
        {"--ranks 4 --stages zero2 --algorithm halving", "algorithm is \"direct\""},
        {"--ranks 4 --stages zero2 --accumulate sequential", "accumulate is \"fold\""},
        {"--ranks 4 --stages ddp", "stages is [\"zero2\",\"zero3\"] in the file and [\"ddp\"]"}}) {
    const Outcome bad = shell(run + options + golden);
    EXPECT_EQ(bad.code, 6) << options << bad.out;
    EXPECT_NE(bad.err.find(says), std::string::npos) << bad.err;
  }
}

TEST_F(Golden, EndsEveryLaunchedRankAlike) {
  const std::string run = "verify --model synthetic --micro-batches 4 --stages zero1,zero2 --golden ";
  std::ofstream(file("cut.json")) << text_.substr(0, text_.size() / 2);
  EXPECT_EQ(launch(2, run + file("cut.json")), (std::vector<int>{6, 6}));
  EXPECT_EQ(lines_in(text_of(file("err.0"))), 1) << text_of(file("err.0"));
  EXPECT_EQ(launch(2, run + file("golden.json") + " --inject flip-gradient"), (std::vector<int>{7, 7}));
  std::ofstream(file("changed.json")) << with_other_hash("gradients", 1);
  EXPECT_EQ(launch(2, run + file("changed.json") + " --steps 1"), (std::vector<int>{7, 7}));
  EXPECT_NE(text_of(file("err.0")).find("a hash in it was changed"), std::string::npos);
  // The second rank's file is another.
  std::ofstream(file("other.1")) << with_other_hash("gradients", 1);
  std::ofstream(file("other.0")) << text_;
  EXPECT_EQ(launch(2, run + file("other.$r")), (std::vector<int>{6, 6}));
  EXPECT_NE(text_of(file("err.0")).find("golden file"), std::string::npos) << text_of(file("err.0"));
}

TEST_F(Golden, IsNotWrittenOverAFile) {
  const Outcome again = shell(kSynthetic + ("--ranks 2 --write-golden " + file("golden.json")));
  EXPECT_EQ(again.code, 6);
  EXPECT_EQ(again.out, "") << "before anything is trained";
  EXPECT_NE(again.err.find("--write-golden "), std::string::npos) << again.err;
  EXPECT_EQ(text_of(file("golden.json")), text_);
}

TEST_F(Golden, RefusesCombinationsThatMakeNoSense) {
  const std::string golden = file("golden.json");
  for (const auto& [options, says] :
       {std::pair{"--golden " + file("none.json"), "no such file"},
        {std::string("--golden /"), "no regular file"},
        {std::string("--golden ''"), "name a file"},
        {"--golden " + golden + " --write-golden new", "leave one of them out"},
        {"--golden " + golden + " --overwrite --out " + golden, "name another file"},
        {"--write-golden " + file("new") + " --inject bitflip", "leave --inject out"},
        {"--write-golden " + file("new") + " --out " + file("new"), "name another file"},
        {std::string("--write-golden /nowhere/at/all.json"), "no folder /nowhere/at"},
        {std::string("--write-golden ''"), "name a file"}}) {
    const Outcome bad = shell(kSynthetic + options);
    EXPECT_EQ(bad.code, 6) << options;
    EXPECT_EQ(bad.out, "") << "before anything is trained";
    EXPECT_EQ(lines_in(bad.err), 1) << bad.err;
    EXPECT_NE(bad.err.find(says), std::string::npos) << bad.err;
  }
  EXPECT_EQ(text_of(golden), text_);
}

}  // namespace
}  // namespace zp
