// zeroproof bench as a user meets it: the hash of verify, rates that are those of the samples, and none where
// a claim is refuted.
#include "correctness/suite/executable.hpp"

namespace zp {
namespace {

std::string hash_in(const std::string& text) {
  const size_t at = text.find("\nhash ");
  return at == std::string::npos ? "no hash in\n" + text : text.substr(at + 6, 32);
}

TEST_F(Executable, TimesEveryStageWithTheHashOfVerifyAndRecordsWhatItTimed) {
  const std::string options = " --ranks 2 --model tiny --threads 1";
  const Outcome verified = shell("ZP verify --steps 4 --stages ddp" + options);
  const Outcome timed = shell("ZP bench -w 2 -n 2 --rounds 2" + options + " --out " + file("rates.jsonl"));
  EXPECT_EQ(timed.code, 0) << timed.err << timed.out;
  EXPECT_EQ(timed.err, "") << "no progress line where standard error is no terminal";
  EXPECT_EQ(hash_in(timed.out), hash_in(verified.out));
  EXPECT_NE(timed.out.find("24 claims proved, 0 refuted; exit 0"), std::string::npos) << timed.out;
  const Outcome read =
      shell("python3 " ZP_SOURCE "/correctness/suite/check_records.py " ZP_SOURCE "/results/schema.md " +
            file("rates.jsonl"));
  EXPECT_EQ(read.code, 0) << read.out << read.err;
  EXPECT_EQ(read.out, "7 records, zeroproof/run/1, zeroproof/bench-stage/1\n");
}

TEST_F(Executable, TimesRanksThatAreProcesses) {
  EXPECT_EQ(
      launch(2, "bench -w 1 -n 2 --rounds 1 --model tiny --stages zero3 --overlap on --prefetch 1 --out " +
                    file("rates.jsonl")),
      (std::vector<int>{0, 0}))
      << text_of(file("err.0"));
  const std::string records = text_of(file("rates.jsonl"));
  EXPECT_NE(records.find(R"("proved":true)"), std::string::npos) << records;
  EXPECT_EQ(records.find(R"("tokens_per_s":null)"), std::string::npos) << records;
}

// Ranks must time as many steps in as many rounds.
TEST_F(Executable, TimesNothingWhereRanksDiffer) {
  EXPECT_EQ(launch(2, "bench -w 1 -n 1 --model tiny --stages ddp --rounds $((1 + r))"),
            (std::vector<int>{6, 6}));
}

// A fault in each kind of step: looked at, on the way, and the last one.
TEST_F(Executable, ShowsInvalidForAFaultInAnyStep) {
  for (const auto& [fault, code] :
       {std::pair{"bitflip:step=0", 7}, std::pair{"flip-gradient:step=2", 7}, std::pair{"bitflip:step=3", 7},
        std::pair{"extra-message:step=2", 8}, std::pair{"keep-gradients:step=2", 9},
        std::pair{"extra-compute:step=3", 12}}) {
    const Outcome bad = shell(std::string("ZP bench -w 2 -n 2 --rounds 2 --ranks 2 --model tiny --threads 1 "
                                          "--stages zero2 --overwrite --out ") +
                              file("rates.jsonl") + " --inject " + fault);
    EXPECT_EQ(bad.code, code) << fault << "\n" << bad.out << bad.err;
    EXPECT_NE(bad.out.find("INVALID"), std::string::npos) << bad.out;
    EXPECT_NE(bad.out.find("INJECTED"), std::string::npos) << bad.out;
    const std::string records = text_of(file("rates.jsonl"));
    EXPECT_NE(records.find(R"("tokens_per_s":null)"), std::string::npos) << records;
    EXPECT_NE(records.find(R"("proved":false)"), std::string::npos) << records;
  }
  EXPECT_EQ(shell("ZP bench -w 1 -n 1 --rounds 1 --model tiny --stages ddp --inject skip-gather").code, 6)
      << "a fault that never struck";
}

}  // namespace
}  // namespace zp
