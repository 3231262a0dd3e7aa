// The device that emulates CUDA, and the one that is not here, as a user meets them.
#include "correctness/suite/executable.hpp"

namespace zp {
namespace {

// Every hash, and who ended on it.
std::string hashes(const std::string& text) {
  std::string lines;
  for (size_t at = text.find("\nhash "); at != std::string::npos; at = text.find("\nhash ", at + 1))
    lines += text.substr(at, text.find('\n', at + 1) - at);
  return lines.empty() ? "no hash in\n" + text : lines;
}

TEST_F(Executable, ProvesEveryStageOnTheEmulatedDeviceWithTheHashOfTheHost) {
  const std::string options = " --ranks 4 --model tiny --steps 1 --micro-batches 4";
  const Outcome host = shell("ZP verify --device cpu" + options);
  const Outcome emulated = shell("ZP verify --device emulated" + options);
  EXPECT_EQ(emulated.code, 0) << emulated.err;
  EXPECT_NE(emulated.out.find("24 claims proved"), std::string::npos) << emulated.out;
  EXPECT_NE(emulated.out.find("\nemulated: "), std::string::npos) << emulated.out;
  EXPECT_EQ(hashes(emulated.out), hashes(host.out));
}

TEST_F(Executable, ProvesEveryStageAtFewerEmulatedRanksWithTheHashOfTheHost) {
  for (int ranks = 1; ranks <= 3; ++ranks) {
    // Two micro-steps where ranks are few.
    const int micro_batches = ranks <= 2 ? 2 * ranks : ranks;
    const std::string options =
        " --model layers=1,width=8,heads=2,positions=8,vocabulary=16 --steps 1 --ranks " +
        std::to_string(ranks) + " --micro-batches " + std::to_string(micro_batches);
    const Outcome host = shell("ZP verify --device cpu" + options);
    const Outcome emulated = shell("ZP verify --device emulated" + options);
    EXPECT_EQ(emulated.code, 0) << emulated.out << emulated.err;
    EXPECT_NE(emulated.out.find("24 claims proved"), std::string::npos) << emulated.out;
    EXPECT_EQ(hashes(emulated.out), hashes(host.out)) << ranks;
    EXPECT_EQ(emulated.out.find("not measured") == std::string::npos, ranks == 1)
        << "the device is one rank's alone, or what is free of it belongs to none\n"
        << emulated.out;
  }
}

#if ZP_CUBLASLT
constexpr const char* kSmall =
    " --model layers=1,width=16,heads=2,positions=8,vocabulary=40 --micro-batches 2";

// A vendor's bits are its own: proved against a reference that computed with the same library, and other bits
// than ours.
TEST_F(Executable, ProvesVendorArithmeticAgainstItsOwnReference) {
  const std::string options = std::string(" --device emulated --ranks 2 --steps 1") + kSmall;
  const Outcome ordered = shell("ZP verify" + options);
  const Outcome vendor = shell("ZP verify --math vendor" + options + " --out " + file("run.jsonl"));
  EXPECT_EQ(ordered.code, 0) << ordered.err;
  EXPECT_EQ(vendor.code, 0) << vendor.err << vendor.out;
  EXPECT_NE(vendor.out.find("24 claims proved, 0 refuted"), std::string::npos) << vendor.out;
  EXPECT_NE(vendor.out.find("  one for all"), std::string::npos) << vendor.out;
  EXPECT_NE(hashes(vendor.out), hashes(ordered.out));
  EXPECT_NE(vendor.out.find("vendor math\n"), std::string::npos) << vendor.out;
  EXPECT_NE(vendor.out.find("\nvendor: cuBLASLt "), std::string::npos) << vendor.out;
  const std::string records = text_of(file("run.jsonl"));
  EXPECT_NE(records.find(R"("grade":"vendor: cuBLASLt )"), std::string::npos) << records;
  EXPECT_NE(records.find(R"( bf16: algorithm 1, tile )"), std::string::npos) << records;
}

TEST_F(Executable, TimesVendorArithmeticOfEveryRecipeOnRanksThatAreProcesses) {
  for (const char* recipe : {"fp32", "bf16"}) {
    EXPECT_EQ(launch(2, std::string("bench -w 1 -n 1 --rounds 1 --device emulated --math vendor "
                                    "--stages zero2 --overwrite --out ") +
                            file("rates.jsonl") + kSmall + " --recipe " + recipe),
              (std::vector<int>{0, 0}))
        << text_of(file("err.0"));
    const std::string records = text_of(file("rates.jsonl"));
    EXPECT_NE(records.find(R"("proved":true)"), std::string::npos) << records;
    EXPECT_NE(records.find(R"("overlap":null)"), std::string::npos) << "streams wait, not the thread";
  }
}

TEST_F(Executable, RefutesAFaultInVendorArithmetic) {
  const Outcome bad = shell(
      std::string("ZP verify --device emulated --math vendor --ranks 2 --steps 1 --stages zero1 --inject ") +
      "flip-gradient" + kSmall);
  EXPECT_EQ(bad.code, 7) << bad.out << bad.err;
  EXPECT_NE(bad.out.find("ulps apart; 1 of "), std::string::npos) << "the reference is replayed: " << bad.out;
}
#endif

TEST_F(Executable, ProvesEmulatedRanksThatAreProcesses) {
  EXPECT_EQ(launch(2,
                   "verify --device emulated --model tiny --steps 1 --stages zero3 --overlap on --prefetch 1 "
                   "--wire i64"),
            (std::vector<int>{0, 0}))
      << text_of(file("err.0"));
}

TEST_F(Executable, InjectsFaultsOnTheEmulatedDeviceToo) {
  for (const auto& [fault, code] :
       {std::pair{"bitflip", 7}, std::pair{"flip-gradient", 7}, std::pair{"double-average", 7},
        std::pair{"keep-gradients", 9}, std::pair{"extra-compute", 12}}) {
    const Outcome outcome =
        shell(std::string("ZP verify --device emulated --ranks 2 --model synthetic --steps 1 ") +
              "--stages zero2 --inject " + fault);
    EXPECT_EQ(outcome.code, code) << fault << "\n" << outcome.out << outcome.err;
  }
}

TEST_F(Executable, RefusesALibrarysCollectivesOnADeviceThatIsNotTheHost) {
  EXPECT_EQ(launch(2, "verify --device emulated --algorithm native --wire i64 --steps 1"),
            (std::vector<int>{5, 5}));
  EXPECT_NE(text_of(file("err.0")).find("--device is emulated"), std::string::npos) << text_of(file("err.0"));
}

TEST_F(Executable, SaysInOneLineOnEveryRankThatThereIsNoGpu) {
  const Outcome found = shell("ZP devices");
  EXPECT_EQ(found.code, 0) << found.err;
  if (found.out.find("\nno GPU: ") == std::string::npos) GTEST_SKIP() << "there is a GPU here";
  const Outcome alone = shell("ZP verify --device cuda --ranks 2");
  EXPECT_EQ(alone.code, 5);
  EXPECT_EQ(alone.out, "");
  EXPECT_EQ(lines_in(alone.err), 1) << alone.err;
  EXPECT_TRUE(alone.err.starts_with("zeroproof: --device cuda: ")) << alone.err;
  EXPECT_EQ(launch(3, "verify --device cuda"), (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(lines_in(text_of(file("err.0"))), 1) << text_of(file("err.0"));
}

TEST_F(Executable, ListsDevicesAndWhereRanksWouldGo) {
  const Outcome two = shell("ZP_EMULATED_CUDA_DEVICES=2 ZP devices --device emulated --ranks 3");
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_NE(two.out.find("\n2 "), std::string::npos) << two.out;  // the third rank
  EXPECT_EQ(shell("ZP devices --device cpu").code, 6);
}

}  // namespace
}  // namespace zp
