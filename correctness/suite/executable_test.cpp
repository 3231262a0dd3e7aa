// The executable as a user meets it: what it prints where, and what it returns, alone and under a launcher.
#include "correctness/suite/executable.hpp"

namespace zp {
namespace {

TEST_F(Executable, SaysBadInputInOneLineOnStandardErrorAndReturnsSix) {
  const Outcome bad = shell("ZP verify --stages zero4");
  EXPECT_EQ(bad.code, 6);
  EXPECT_EQ(bad.out, "");
  EXPECT_EQ(lines_in(bad.err), 1) << bad.err;
  EXPECT_TRUE(bad.err.starts_with("zeroproof: --stages: 'zero4'")) << bad.err;
}

TEST_F(Executable, ReturnsFiveForWhatCannotBeHadHere) {
  const Outcome bad = shell("ZP verify --ranks 3 --algorithm halving");
  EXPECT_EQ(bad.code, 5);
  EXPECT_EQ(lines_in(bad.err), 1) << bad.err;
}

TEST_F(Executable, RefusesAMissingOrEmptyOrTooShortDataFile) {
  std::ofstream(file("empty.txt")).close();
  std::ofstream(file("short.txt")) << "four";
  for (const std::string name : {"missing.txt", "empty.txt", "short.txt"}) {
    const Outcome bad = shell("ZP verify --ranks 2 --data " + file(name));
    EXPECT_EQ(bad.code, 6) << bad.err;
    EXPECT_EQ(lines_in(bad.err), 1) << bad.err;
    EXPECT_NE(bad.err.find(name), std::string::npos) << bad.err;
    EXPECT_EQ(bad.out, "");
  }
}

TEST_F(Executable, EndsEveryLaunchedRankOnBadInputAndLetsOnlyTheFirstSpeak) {
  EXPECT_EQ(launch(3, "verify --recipe fp16"), (std::vector<int>{6, 6, 6}));
  EXPECT_EQ(lines_in(text_of(file("err.0"))), 1) << text_of(file("err.0"));
  EXPECT_EQ(text_of(file("err.1")), "");
  EXPECT_EQ(text_of(file("err.2")), "");
}

TEST_F(Executable, EndsEveryLaunchedRankWhenOneAloneIsWrong) {
  // Only the second rank's options are wrong, or differ.
  for (const char* options : {"--steps 0", "--recipe fp16", "--steps 1 --seed 2", "--data /nowhere"}) {
    const std::vector<int> codes =
        launch(3, "verify --model tiny $(test $r = 1 && echo " + std::string(options) + ")");
    EXPECT_EQ(codes, std::vector<int>({6, 6, 6})) << options;
    EXPECT_TRUE(text_of(file("err.0")).find("rank") != std::string::npos)
        << options << text_of(file("err.0"));
  }
}

TEST_F(Executable, EndsRanksThatWereStartedWithDifferentCommands) {
  const std::vector<int> codes =
      launch(3, "$(test $r = 1 && echo plan --params 7e9 --ranks 4 || echo verify --model tiny --steps 1)");
  EXPECT_EQ(codes, std::vector<int>({6, 6, 6}));
  EXPECT_NE(text_of(file("err.0")).find("different commands"), std::string::npos) << text_of(file("err.0"));
}

TEST_F(Executable, AgreesOnKernelThreadsThatWereNotAskedFor) {
  EXPECT_EQ(launch(2, "verify --model tiny --steps 1 --threads $((1 + r))"), std::vector<int>({6, 6}));
}

TEST_F(Executable, RefusesWhatDoesNotFitTheMemoryWithTheLedgersFigure) {
  const Outcome outcome = shell(
      "ZP verify --ranks 2 --stages ddp --model "
      "layers=96,width=8192,heads=64,positions=128,vocabulary=50000");
  EXPECT_EQ(outcome.code, 5);
  EXPECT_NE(outcome.err.find("ledger of stage ddp"), std::string::npos) << outcome.err;
}

TEST_F(Executable, EndsWithTheCodeOfAnInjectionThatNeverFired) {
  const Outcome outcome = shell(
      "ZP verify --model tiny --steps 1 --stages ddp --inject extra-message --inject "
      "skip-gather --out " +
      file("run.jsonl"));
  EXPECT_EQ(outcome.code, 6);
  EXPECT_NE(outcome.err.find("skip-gather: the fault never fired"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("exit 6"), std::string::npos) << outcome.out;
  EXPECT_NE(text_of(file("run.jsonl")).find("\"exit\":6"), std::string::npos);
  EXPECT_EQ(shell("ZP verify --model tiny --inject bitflip:step=7").code, 6);
}

TEST_F(Executable, RefusesDataOfWhichMicroBatchesDoNotDiffer) {
  std::ofstream(file("short")) << "forty bytes give eight places to start.\n";
  const Outcome outcome = shell("ZP verify --model tiny --ranks 2 --data " + file("short"));
  EXPECT_EQ(outcome.code, 6);
  EXPECT_NE(outcome.err.find("hold the same tokens"), std::string::npos) << outcome.err;
}

TEST_F(Executable, RefusesDataThatIsNoRegularFileOrShorterThanAMicroBatch) {
  const Outcome endless = shell("ZP verify --model tiny --data /dev/zero");
  EXPECT_EQ(endless.code, 6);
  EXPECT_NE(endless.err.find("no regular file"), std::string::npos) << endless.err;
  // A sequence and its next token are there, but not four sequences.
  std::ofstream(file("sequence")) << std::string(33, 'a');
  const Outcome sequence = shell("ZP verify --model tiny --micro-batch-size 4 --data " + file("sequence"));
  EXPECT_EQ(sequence.code, 6);
  EXPECT_NE(sequence.err.find("a micro-batch of 128"), std::string::npos) << sequence.err;
}

TEST_F(Executable, SaysInWhichLayoutsTheHashHolds) {
  const auto says = [&](const std::string& options) { return shell("ZP verify --steps 1 " + options).out; };
  EXPECT_NE(says("--ranks 2 --stages zero2 --micro-batches 24").find("belongs to this layout"),
            std::string::npos);
  EXPECT_NE(says("--ranks 3 --stages zero2 --micro-batches 24").find("N = 1, 3, 6, 12, 24"),
            std::string::npos)
      << says("--ranks 3 --stages zero2 --micro-batches 24");
  EXPECT_NE(says("--ranks 4 --accumulate sequential --stages zero2").find("N = 4, 8"), std::string::npos)
      << "up to two micro-steps are a fold";
  EXPECT_NE(says("--ranks 2 --accumulate sequential --stages zero2").find("A = 4 added one after another"),
            std::string::npos);
  EXPECT_NE(says("--ranks 7 --model synthetic").find("any number of ranks"), std::string::npos);
}

TEST_F(Executable, RefusesSeveralProcessesThatEachBelieveTheyAreAlone) {
  EXPECT_EQ(launch(2, "verify --transport threads"), (std::vector<int>{6, 6}));
  EXPECT_NE(text_of(file("err.0")).find("believe they are alone"), std::string::npos)
      << text_of(file("err.0"));
}

TEST_F(Executable, ProvesEveryStageAndLeavesRecordsThatKeepToTheirSchema) {
  const Outcome good = shell("ZP verify --ranks 2 --model tiny --steps 2 --out " + file("run.jsonl"));
  EXPECT_EQ(good.code, 0) << good.err << good.out;
  EXPECT_EQ(good.err, "") << "no progress line where standard error is no terminal";
  EXPECT_NE(good.out.find("24 claims proved, 0 refuted; exit 0"), std::string::npos) << good.out;
  const Outcome read =
      shell("python3 " ZP_SOURCE "/correctness/suite/check_records.py " ZP_SOURCE "/results/schema.md " +
            file("run.jsonl"));
  EXPECT_EQ(read.code, 0) << read.out << read.err;
  EXPECT_EQ(read.out, "7 records, zeroproof/run/1, zeroproof/stage/1\n");
  const Outcome again = shell("ZP verify --ranks 2 --model tiny --steps 2 --out " + file("run.jsonl"));
  EXPECT_EQ(again.code, 6) << "a record is never overwritten silently";
}

TEST_F(Executable, RefusesAModelFileThatIsNestedWithoutEnd) {
  const std::string deep(200'000, '['), closed(200'000, ']');
  std::ofstream(file("config.json")) << R"({"model_type": "gpt2", "n_layer": )" << deep << closed << "}";
  const Outcome bad = shell("ZP plan --ranks 2 --model " + file("config.json"));
  EXPECT_EQ(bad.code, 6) << bad.err;
  EXPECT_EQ(lines_in(bad.err), 1) << bad.err;
  EXPECT_NE(bad.err.find("is nested more than 16 deep"), std::string::npos) << bad.err;
}

// A config.json of GPT-2 and 999 tokens below `most`, made from a fixed seed.
constexpr const char* kMakeFiles =
    "import json,random,struct,sys; r=random.Random(1); most,config,tokens=sys.argv[1:]; "
    "open(config,\"w\").write(json.dumps({\"model_type\":\"gpt2\",\"n_layer\":1,\"n_embd\":10,\"n_head\":2,"
    "\"n_positions\":9,\"vocab_size\":500})); open(tokens,\"wb\").write(struct.pack(\"<256i\",20240520,1,999,"
    "*[0]*253)+struct.pack(\"<999H\",*[r.randrange(int(most)) for i in range(999)]))";

TEST_F(Executable, TrainsTheModelOfAFileOnTheTokensOfAFile) {
  const std::string config = file("config.json"), tokens = file("tokens.bin");
  const auto make = [&](const std::string& most) {
    return shell(std::string("python3 -c '") + kMakeFiles + "' " + most + " " + config + " " + tokens).code;
  };
  const std::string run = "ZP verify --ranks 3 --steps 2 --model " + config + " --data " + tokens;
  ASSERT_EQ(make("500"), 0);
  const Outcome good = shell(run + " --freeze block.0");
  EXPECT_EQ(good.code, 0) << good.err << good.out;
  EXPECT_NE(good.out.find("config.json, 6,440 parameters"), std::string::npos) << good.out;
  EXPECT_NE(good.out.find("direct, tied, frozen:"), std::string::npos) << good.out;
  ASSERT_EQ(make("9000"), 0);
  const Outcome bad = shell(run);
  EXPECT_EQ(bad.code, 6);
  EXPECT_EQ(lines_in(bad.err), 1) << bad.err;
  EXPECT_NE(bad.err.find("outside the model's vocabulary of 500"), std::string::npos) << bad.err;
}

TEST_F(Executable, StandsByNodeUnderALauncherWithTheSameHash) {
  const std::string options = "verify --model tiny --steps 1 --stages ddp,zero3 --out ";
  EXPECT_EQ(launch(4, options + file("one.jsonl")), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(launch(4, options + file("two.jsonl") + " --ranks-per-node 2"), (std::vector<int>{0, 0, 0, 0}));
  const auto hash = [&](const std::string& name) {
    const std::string text = text_of(file(name));
    return text.substr(text.find(R"("hash":")"), 41);
  };
  EXPECT_EQ(hash("one.jsonl"), hash("two.jsonl"));
  EXPECT_NE(text_of(file("one.jsonl")).find(R"("nodes":1)"), std::string::npos) << "ranks here share memory";
  EXPECT_NE(text_of(file("two.jsonl")).find(R"("nodes":2)"), std::string::npos);
}

TEST_F(Executable, DumpsIntoANewFolderAndMovesNoBitByIt) {
  const std::string run = "ZP verify --model tiny --ranks 2 --steps 1 --stages zero1,zero3 ";
  const auto hash_of = [](const std::string& text) {
    const size_t at = text.find("\nhash ");
    return at == std::string::npos ? "" : text.substr(at + 6, 32);
  };
  const Outcome plain = shell(run), dumped = shell(run + "--dump " + file("dump"));
  EXPECT_EQ(dumped.code, 0) << dumped.err << dumped.out;
  EXPECT_NE(dumped.out.find("8 claims proved, 0 refuted"), std::string::npos) << dumped.out;
  EXPECT_EQ(hash_of(dumped.out).size(), 32U);
  EXPECT_EQ(hash_of(dumped.out), hash_of(plain.out));
  for (const char* name : {"manifest.json", "zero3/initial/master.head.weight.rank1.npy",
                           "zero1/step.0/micro-batch.7/gradient.block.2.up.weight.npy"}) {
    EXPECT_TRUE(fs::exists(file(std::string("dump/") + name))) << name;
  }
  const Outcome again = shell(run + "--dump " + file("dump"));
  EXPECT_EQ(again.code, 6);
  EXPECT_NE(again.err.find("is not empty"), std::string::npos) << again.err;
  // Where even root cannot make a folder.
  const Outcome nowhere = shell(run + "--dump /proc/zeroproof");
  EXPECT_EQ(nowhere.code, 6);
  EXPECT_NE(nowhere.err.find("--dump /proc/zeroproof: "), std::string::npos) << nowhere.err;
  EXPECT_EQ(nowhere.out, "") << "refused before training";
  EXPECT_NE(shell(run + "--dump /nowhere/at/all").err.find("no folder /nowhere/at"), std::string::npos);
  EXPECT_NE(shell(run + "--dump /etc/hostname").err.find("is no folder"), std::string::npos);
}

TEST_F(Executable, RecordsARefutedStageWithoutARate) {
  const Outcome bad =
      shell("ZP verify --ranks 2 --model tiny --steps 2 --stages zero1 --inject bitflip --out " +
            file("run.jsonl"));
  EXPECT_EQ(bad.code, 7) << bad.err << bad.out;
  EXPECT_NE(bad.out.find("INVALID"), std::string::npos) << bad.out;
  EXPECT_NE(bad.out.find("INJECTED bitflip"), std::string::npos) << bad.out;
  const std::string record = text_of(file("run.jsonl"));
  EXPECT_NE(record.find(R"("tokens_per_s":null)"), std::string::npos) << record;
  EXPECT_NE(record.find(R"("injected":"bitflip")"), std::string::npos) << record;
}

TEST_F(Executable, PlansWhatARunIsThenHeldTo) {
  const Outcome plan =
      shell("ZP plan --model tiny --ranks 2 --micro-steps 4 --threads 1 --out " + file("plan.jsonl"));
  EXPECT_EQ(plan.code, 0) << plan.err;
  const Outcome run = shell(
      "ZP verify --ranks 2 --model tiny --micro-batches 8 --threads 1 --steps 1 --out " + file("run.jsonl"));
  EXPECT_EQ(run.code, 0) << run.err;
  const std::string compare =
      "import json,sys; p=json.loads(open(sys.argv[1]).readline()); r=[json.loads(l) for l in "
      "open(sys.argv[2])][1:]; "
      "a=[(s[\"stage\"],s[\"peak_bytes\"],sum(v[\"bytes\"] for v in s[\"sent_by_purpose\"].values())) "
      "for s in p[\"exact\"][\"stages\"]]; "
      "b=[(s[\"stage\"],s[\"peak_bytes\"],s[\"sent_bytes\"]) for s in r]; sys.exit(print(a,b) or a!=b)";
  const Outcome same = shell("python3 -c '" + compare + "' " + file("plan.jsonl") + " " + file("run.jsonl"));
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  const Outcome read =
      shell("python3 " ZP_SOURCE "/correctness/suite/check_records.py " ZP_SOURCE "/results/schema.md " +
            file("plan.jsonl"));
  EXPECT_EQ(read.code, 0) << read.out << read.err;
}

}  // namespace
}  // namespace zp
