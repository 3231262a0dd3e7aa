// What the executable makes of a library's collectives: four claims and the hash of direct where no order
// changes a sum, refusals where one would, and an end on every rank when one stops.
#include <chrono>

#include "correctness/suite/executable.hpp"

namespace zp {
namespace {

// After `word` in a text: `length` characters.
std::string after(const std::string& text, const std::string& word, size_t length) {
  const size_t at = text.find(word);
  return at == std::string::npos ? "" : text.substr(at + word.size(), length);
}

std::string hash_in(const std::string& text) { return after(text, "\nhash ", 32); }

struct Sums {
  const char* name;
  const char* options;
  friend std::ostream& operator<<(std::ostream& out, const Sums& sums) { return out << sums.name; }
};

class NativeSums : public Executable, public testing::WithParamInterface<std::tuple<int, Sums>> {};

TEST_P(NativeSums, EndOnTheHashOfDirect) {
  const auto& [ranks, sums] = GetParam();
  const std::string run = std::string("verify --steps 2 --micro-batches 24 ") + sums.options;
  EXPECT_EQ(launch(ranks, run + " --algorithm native --out " + file("run.jsonl")),
            std::vector<int>(static_cast<size_t>(ranks), 0));
  const std::string said = text_of(file("out"));
  EXPECT_NE(said.find("18 claims proved, 0 refuted, 6 not measured"), std::string::npos)
      << said << text_of(file("err.0"));
  EXPECT_NE(said.find("one for all"), std::string::npos) << said;
  EXPECT_NE(said.find(" (mpi), native"), std::string::npos) << said;
  const std::string record = text_of(file("run.jsonl"));
  EXPECT_NE(record.find(R"("sent_bytes":null)"), std::string::npos) << record;
  EXPECT_NE(record.find(R"("bytes":{"verdict":"not measured","holds":null)"), std::string::npos) << record;

  const Outcome direct = shell("ZP " + run + " --algorithm direct --ranks " + std::to_string(ranks));
  EXPECT_EQ(direct.code, 0) << direct.err;
  EXPECT_NE(direct.out.find("24 claims proved, 0 refuted"), std::string::npos) << direct.out;
  EXPECT_EQ(hash_in(said).size(), 32U);
  EXPECT_EQ(hash_in(said), hash_in(direct.out));
}

INSTANTIATE_TEST_SUITE_P(Of, NativeSums,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Values(Sums{"i64", "--model tiny --wire i64"},
                                                          Sums{"fp32", "--model synthetic --recipe fp32"},
                                                          Sums{"bf16", "--model synthetic --recipe bf16"})),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param).name) + "_w" +
                                  std::to_string(std::get<0>(info.param));
                         });

class NativeRuns : public Executable {
 protected:
  // What rank 0 says of a run that ends every rank with `code`.
  std::string refusal(int ranks, const std::string& options, int code) {
    EXPECT_EQ(launch(ranks, "verify --steps 1 --algorithm native " + options),
              std::vector<int>(static_cast<size_t>(ranks), code))
        << options;
    const std::string said = text_of(file("err.0"));
    EXPECT_EQ(lines_in(said), 1) << said;
    return said;
  }
};

TEST_F(NativeRuns, AreRefusedWhereAnOrderWouldChangeASum) {
  EXPECT_NE(
      refusal(3, "--model synthetic --recipe bf16 --micro-batches 33", 6).find("up to 32 micro-batches"),
      std::string::npos);
  EXPECT_NE(refusal(2, "--model tiny", 6).find("sums of model tiny have other bits"), std::string::npos);
  EXPECT_EQ(shell("ZP verify --algorithm native --wire i64").code, 5) << "threads have no library";
}

TEST_F(NativeRuns, KeepToTheSchemaAndAreRefutedWhereTheyDivideTwice) {
  const std::string run =
      "verify --model tiny --steps 2 --wire i64 --algorithm native --stages zero1-allreduce ";
  EXPECT_EQ(launch(2, run + "--inject double-average:step=1 --out " + file("run.jsonl")),
            (std::vector<int>{7, 7}));
  const Outcome read =
      shell("python3 " ZP_SOURCE "/correctness/suite/check_records.py " ZP_SOURCE "/results/schema.md " +
            file("run.jsonl"));
  EXPECT_EQ(read.code, 0) << read.out << read.err;
}

// A launcher that ends the job when a process of it ends, as mpirun does unless it is told otherwise, or one
// that leaves the others alone.
enum class Launcher { ends_all, leaves_others };

// Three ranks, of which rank 1 never comes to a sum, stops in it, or ends there: the others give up by
// themselves.
class NativeStops : public Executable, public testing::WithParamInterface<std::tuple<std::string, Launcher>> {
 protected:
  NativeStops() {
    if (std::get<Launcher>(GetParam()) == Launcher::leaves_others) setenv(kLeavesOthers, "1", 1);
  }
  ~NativeStops() override { unsetenv(kLeavesOthers); }

 private:
  static constexpr const char* kLeavesOthers = "OMPI_MCA_orte_enable_recovery";
};

TEST_P(NativeStops, AreATimeoutOfEveryOtherRankThatNamesCollectiveAndTensor) {
  const auto& [how, launcher] = GetParam();
  const auto began = std::chrono::steady_clock::now();
  const std::vector<int> codes =
      launch(3, "verify --model tiny --steps 3 --wire i64 --algorithm native --stages zero2 --timeout 2",
             "export LD_PRELOAD=" ZP_STOPPING_MPI " ZP_STOP=rank=1,sum=7," + how + "; ");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const std::string said = text_of(file("err.0"));
  EXPECT_EQ(lines_in(said), 1) << said;
  for (const char* word : {"zeroproof: stage zero2: rank ", " waited 2 s in native reduce-scatter number ",
                           "(reduce grads) of ", "[tensor "}) {
    EXPECT_NE(said.find(word), std::string::npos) << "no '" << word << "' in: " << said;
  }
  // A launcher that ends all may end the shell that would have kept a code.
  if (launcher == Launcher::leaves_others) {
    EXPECT_EQ(codes, (std::vector<int>{4, 1, 4}));
  }
  EXPECT_LT(took.count(), 30.0) << "two seconds of waiting, and a few to take memory back";
}

INSTANTIATE_TEST_SUITE_P(Of, NativeStops,
                         testing::Values(std::tuple{"before", Launcher::ends_all},
                                         std::tuple{"inside", Launcher::leaves_others},
                                         std::tuple{"leaves", Launcher::leaves_others}),
                         [](const auto& info) { return std::get<0>(info.param); });

// Rank 0 speaks for all. Where it is the one that stops, rank 1 does.
TEST_F(NativeRuns, WhoseFirstRankStopsAreExplainedByTheSecond) {
  setenv("OMPI_MCA_orte_enable_recovery", "1", 1);  // the launcher leaves the others alone
  const std::vector<int> codes =
      launch(2, "verify --model tiny --steps 3 --stages zero2 --timeout 2",
             "export LD_PRELOAD=" ZP_STOPPING_MPI " ZP_STOP=rank=0,sum=60,message; ");
  unsetenv("OMPI_MCA_orte_enable_recovery");
  EXPECT_EQ(codes, (std::vector<int>{1, 4}));
  EXPECT_EQ(text_of(file("err.0")), "");
  const std::string said = text_of(file("err.1"));
  EXPECT_EQ(lines_in(said), 1) << said;
  EXPECT_NE(said.find("zeroproof: stage zero2: rank 1 waited 2 s for rank 0 in "), std::string::npos) << said;
}

}  // namespace
}  // namespace zp
