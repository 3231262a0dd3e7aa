// The device that emulates CUDA, and the one that is not here, as a user meets them.
#include "correctness/emulated_backend/small_runs.hpp"
#include "correctness/suite/executable.hpp"

namespace zp {
namespace {

TEST_F(Executable, ProvesEveryStageOnTheEmulatedDeviceWithTheHashOfTheHost) {
  const std::string options = " --ranks 4 --model tiny --steps 1";
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
    const Outcome emulated = shell("ZP_EMULATED_CUDA_DEVICES=1 ZP verify --device emulated" + options);
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

TEST_F(Executable, ProvesRanksThatShareAGpu) {
  const Outcome shared =
      shell("ZP_EMULATED_CUDA_DEVICES=1 ZP verify --device emulated --ranks 4 --stages zero2" + kFew);
  EXPECT_EQ(shared.code, 0) << shared.err;
  EXPECT_NE(shared.out.find("\nemulated: 1 x "), std::string::npos) << shared.out;
  EXPECT_NE(shared.out.find("messages are staged"), std::string::npos) << shared.out;
}

TEST_F(Executable, ProvesEmulatedRanksThatAreProcesses) {
  EXPECT_EQ(launch(2,
                   "verify --device emulated --model tiny --steps 1 --stages zero3 --overlap on --prefetch 1 "
                   "--wire i64"),
            (std::vector<int>{0, 0}))
      << text_of(file("err.0"));
  EXPECT_NE(text_of(file("out")).find("staged through pinned memory (MPI "), std::string::npos)
      << "the emulated device's processes have an MPI that is not GPU-aware\n"
      << text_of(file("out"));
}

TEST_F(Executable, EndsOnEveryRankWhereAKernelNeverDoes) {
  const std::string run = "verify --device emulated --timeout 1 --stages zero3" + kTiniest;
  const Outcome alone = shell("ZP_EMULATED_CUDA_STALL_AT=40 ZP " + run + " --ranks 1");
  EXPECT_EQ(alone.code, 4);
  EXPECT_EQ(alone.err,
            "zeroproof: stage zero3: GPU 0: waited 1 s for kernels and copies, none of which ended\n");
  EXPECT_EQ(launch(2, run, "export ZP_EMULATED_CUDA_STALL_DEVICE=1 ZP_EMULATED_CUDA_STALL_AT=40; "),
            (std::vector<int>{4, 4}));
  EXPECT_EQ(lines_in(text_of(file("err.0"))), 1) << text_of(file("err.0"));
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

#if ZP_NCCL
TEST_F(Executable, ProvesEveryStageThroughNcclsCollectivesWithTheHashOfTheHost) {
  const std::string options = " --ranks 4 --wire i64" + kFew;
  const Outcome host = shell("ZP verify --device cpu" + options);
  const Outcome nccl = shell("ZP verify --device emulated --transport nccl --algorithm native --out " +
                             file("run.jsonl") + options);
  EXPECT_EQ(nccl.code, 0) << nccl.err;
  EXPECT_NE(nccl.out.find("18 claims proved, 0 refuted, 6 not measured"), std::string::npos) << nccl.out;
  EXPECT_NE(nccl.out.find("(nccl), native"), std::string::npos) << nccl.out;
  EXPECT_NE(nccl.out.find("carried by NCCL 2."), std::string::npos) << nccl.out;
  EXPECT_EQ(hashes(nccl.out), hashes(host.out));
  EXPECT_NE(text_of(file("run.jsonl")).find(R"("nccl":{"version":"2.)"), std::string::npos);
  EXPECT_NE(text_of(file("run.jsonl")).find(R"("log":"INIT,P2P,NET,NVLS,TUNING")"), std::string::npos);
  EXPECT_NE(text_of(file("run.jsonl")).find(R"("NCCL_P2P_DIRECT_DISABLE":"1")"), std::string::npos);
}

// Nobody gave the GPUs of other ranks access to a pool.
TEST_F(Executable, IsToldWhereRanksOfOneProcessWouldReachEachOthersPools) {
  const Outcome direct = shell("NCCL_P2P_DIRECT_DISABLE=0 ZP verify --device emulated --transport nccl" +
                               kFew + " --ranks 2 --wire i64 --algorithm native");
  EXPECT_EQ(direct.code, 2) << direct.err;
  EXPECT_NE(direct.err.find("a pool that the devices of other ranks do not reach"), std::string::npos)
      << direct.err;
}

TEST_F(Executable, ProvesTinyThroughNcclsCollectivesWithTheHashOfTheHost) {
  const std::string run = " --model tiny --ranks 4 --wire i64 --steps 1 --micro-batches 4";
  const Outcome nccl = shell("ZP verify --device emulated --transport nccl --algorithm native" + run);
  EXPECT_EQ(nccl.code, 0) << nccl.out << nccl.err;
  EXPECT_EQ(hashes(nccl.out), hashes(shell("ZP verify --device cpu" + run).out));
}

TEST_F(Executable, ProvesMicroStepsThroughNcclsCollectivesAtFewerRanks) {
  const std::string run = " --wire i64 --steps 1 --model layers=1,width=8,heads=2,positions=8,vocabulary=16";
  for (const int ranks : {1, 2, 3}) {
    const std::string each =
        run + " --ranks " + std::to_string(ranks) + " --micro-batches " + std::to_string(2 * ranks);
    const Outcome host = shell("ZP verify --device cpu --stages ddp,zero3" + each);
    const Outcome nccl =
        shell("ZP verify --device emulated --transport nccl --algorithm native --stages ddp,zero3" + each);
    EXPECT_EQ(nccl.code, 0) << nccl.err;
    EXPECT_NE(nccl.out.find("6 claims proved, 0 refuted, 2 not measured"), std::string::npos) << nccl.out;
    EXPECT_EQ(hashes(nccl.out), hashes(host.out)) << ranks;
  }
}

// Lines that NCCL writes for every call are left out of timed steps.
TEST_F(Executable, TimesNcclWithoutALineForEveryCall) {
  const Outcome timed = shell(
      "ZP bench -w 0 -n 1 --rounds 1 --device emulated --transport nccl --stages zero2 --ranks 2 --out " +
      file("rates.jsonl") + " --model layers=1,width=8,heads=2,positions=8,vocabulary=16");
  EXPECT_EQ(timed.code, 0) << timed.err;
  const std::string records = text_of(file("rates.jsonl"));
  EXPECT_NE(records.find(R"("log":"INIT,P2P,NET,NVLS",)"), std::string::npos) << records;
}

TEST_F(Executable, RefusesRanksWhoseNcclsDiffer) {
  EXPECT_EQ(launch(3, "verify --device emulated --transport nccl --model synthetic --steps 1 --stages ddp",
                   "if [ $OMPI_COMM_WORLD_RANK = 2 ]; then export ZP_EMULATED_CUDA_NCCL_VERSION=99901; fi; "),
            (std::vector<int>{5, 5, 5}));
  const std::string said = text_of(file("err.0"));
  EXPECT_EQ(lines_in(said), 1) << said;
  EXPECT_NE(said.find("--transport nccl: rank 0 has NCCL 2."), std::string::npos) << said;
  EXPECT_NE(said.find("rank 2 has NCCL 9.99.1"), std::string::npos) << said;
}

// Messages and additions of our own, at every number of ranks, with buckets and gathers ahead.
TEST_F(Executable, ProvesNcclsMessagesWithTheHashOfTheHost) {
  const std::string busy = " --overlap on --prefetch 1 --bucket-mb 0.01";
  const std::string host = hashes(shell("ZP verify --ranks 1 --stages ddp" + kFew).out);
  for (const auto& [ranks, algorithm, stages, more] :
       {std::tuple{1, "direct", "zero2", std::string()}, std::tuple{2, "direct", "zero1,zero3", busy},
        std::tuple{2, "ring", "ddp", std::string()}, std::tuple{4, "halving", "ddp,zero3-keep", busy},
        std::tuple{4, "direct", "zero2", std::string()}}) {
    const Outcome outcome =
        shell("ZP verify --device emulated --transport nccl --ranks " + std::to_string(ranks) +
              " --algorithm " + algorithm + " --stages " + stages + more + kFew);
    EXPECT_EQ(outcome.code, 0) << ranks << algorithm << outcome.out << outcome.err;
    EXPECT_EQ(hashes(outcome.out), host) << ranks << algorithm;
  }
}

// Three ranks: their sums belong to their layout, but for those in fixed point.
TEST_F(Executable, CarriesMessagesBetweenProcessesByNccl) {
  const std::string run =
      "verify --wire i64 --stages zero3 --micro-batches 6 --steps 1 --model "
      "layers=1,width=32,heads=2,positions=16,vocabulary=64";
  EXPECT_EQ(launch(3, run + " --device emulated --transport nccl"), (std::vector<int>{0, 0, 0}))
      << text_of(file("err.0"));
  const std::string said = text_of(file("out"));
  EXPECT_NE(said.find("(nccl), direct"), std::string::npos) << said;
  EXPECT_EQ(hashes(said), hashes(shell("ZP " + run + " --ranks 3").out));
}

TEST_F(Executable, RefusesNcclInOneLineWhereItCannotBe) {
  const Outcome host = shell("ZP verify --transport nccl --ranks 2");
  EXPECT_EQ(host.code, 5);
  EXPECT_EQ(lines_in(host.err), 1) << host.err;
  EXPECT_NE(host.err.find("--transport nccl: "), std::string::npos) << host.err;
  const Outcome shared =
      shell("ZP_EMULATED_CUDA_DEVICES=2 ZP verify --device emulated --transport nccl --ranks 3 --steps 1");
  EXPECT_EQ(shared.code, 5);
  EXPECT_EQ(lines_in(shared.err), 1) << shared.err;
  EXPECT_NE(shared.err.find("ranks 0 and 2 are on one GPU"), std::string::npos) << shared.err;
  EXPECT_NE(shared.err.find("--transport threads"), std::string::npos) << shared.err;
  EXPECT_EQ(
      launch(2, "verify --device emulated --transport nccl --steps 1", "export ZP_EMULATED_CUDA_DEVICES=1; "),
      (std::vector<int>{5, 5}));
  EXPECT_NE(text_of(file("err.0")).find("--transport mpi"), std::string::npos) << text_of(file("err.0"));
  EXPECT_EQ(shell("ZP verify --device emulated --transport nccl --algorithm native" + kFew).code, 6)
      << "fp32 sums in an order of NCCL's own";
}

TEST_F(Executable, EndsOnEveryRankWhereNcclFails) {
  const std::string run = "verify --device emulated --transport nccl --stages zero2" + kFew;
  const std::string at = "_RANK=1 ZP_EMULATED_CUDA_NCCL_FAULT_AT=9";
  const auto faulty = [&](const std::string& how) {
    return "ZP_EMULATED_CUDA_NCCL_FAULT=" + how + " ZP_EMULATED_CUDA_NCCL_FAULT" + at + " ";
  };
  const Outcome error = shell(faulty("error") + "ZP " + run + "--ranks 2");
  EXPECT_EQ(error.code, 2) << error.err;
  for (const char* word : {"stage zero2: rank 1: NCCL: ", " number ", "[tensor "})
    EXPECT_NE(error.err.find(word), std::string::npos) << error.err;
  const Outcome stall = shell(faulty("stall") + "ZP " + run + "--ranks 2 --timeout 1");
  EXPECT_EQ(stall.code, 4) << stall.err;
  EXPECT_NE(stall.err.find(" waited 1 s in "), std::string::npos) << stall.err;
  // Where one rank alone leaves a collective out, messages do not fit from there on.
  const Outcome skipped = shell("ZP_EMULATED_CUDA_NCCL_MISMATCH=0 ZP " + run +
                                "--ranks 2 --timeout 2 --inject skip-gather:rank=1");
  EXPECT_EQ(skipped.code, 3) << skipped.err;
  EXPECT_NE(skipped.err.find("collective logs differ"), std::string::npos) << skipped.err;
}

// A process that stops: the others give up by themselves, whoever ends it.
TEST_F(Executable, GivesUpAProcessThatStopsInNccl) {
  const std::vector<int> codes = launch(
      3,
      "verify --device emulated --transport nccl --stages zero2 --timeout 1 --micro-batches 6 --steps 1 "
      "--model layers=1,width=32,heads=2,positions=16,vocabulary=64",
      "export ZP_EMULATED_CUDA_NCCL_FAULT=stop ZP_EMULATED_CUDA_NCCL_FAULT_RANK=1 "
      "ZP_EMULATED_CUDA_NCCL_FAULT_AT=9; ");
  EXPECT_EQ(codes[0], 4);
  const std::string said = text_of(file("err.0"));
  EXPECT_EQ(lines_in(said), 1) << said;
  EXPECT_NE(said.find("waited 1 s in "), std::string::npos) << said;
}
#endif

TEST_F(Executable, RefusesALibrarysCollectivesOnADeviceThatIsNotTheHost) {
  EXPECT_EQ(launch(2, "verify --device emulated --algorithm native --wire i64 --steps 1"),
            (std::vector<int>{5, 5}));
  EXPECT_NE(text_of(file("err.0")).find("--device is emulated"), std::string::npos) << text_of(file("err.0"));
}

TEST_F(Executable, SaysInOneLineOnEveryRankThatThereIsNoGpu) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a driver here";
  const Outcome found = shell("ZP devices");
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_NE(found.out.find("\nno GPU: "), std::string::npos) << found.out;
  const Outcome alone = shell("ZP verify --device cuda --ranks 2");
  EXPECT_EQ(alone.code, 5);
  EXPECT_EQ(alone.out, "");
  EXPECT_EQ(lines_in(alone.err), 1) << alone.err;
  EXPECT_TRUE(alone.err.starts_with("zeroproof: --device cuda: ")) << alone.err;
  EXPECT_EQ(launch(3, "verify --device cuda"), (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(lines_in(text_of(file("err.0"))), 1) << text_of(file("err.0"));
}

TEST_F(Executable, RefusesAGpuThatIsTooOldInOneLine) {
  const auto of_capability = [&](const std::string& number, const std::string& command) {
    return shell("ZP_EMULATED_CUDA_DEVICES=2 ZP_EMULATED_CUDA_CAPABILITY=" + number + " ZP " + command +
                 " --device emulated");
  };
  const Outcome old = of_capability("75", "verify --ranks 2 --model synthetic --steps 1");
  EXPECT_EQ(old.code, 5) << old.err;
  EXPECT_EQ(old.out, "");
  EXPECT_EQ(lines_in(old.err), 1) << old.err;
  EXPECT_TRUE(old.err.starts_with("zeroproof: --device emulated: GPU 0, ")) << old.err;
  EXPECT_NE(old.err.find("compute capability 7.5"), std::string::npos) << old.err;
  EXPECT_EQ(of_capability("80", "devices").code, 0);
  EXPECT_NE(of_capability("103", "devices").out.find(" 10.3 "), std::string::npos);
}

TEST_F(Executable, RefusesADriverThatIsTooOldInOneLine) {
  const auto of_driver = [&](const std::string& number) {
    return shell("ZP_EMULATED_CUDA_DRIVER=" + number +
                 " ZP verify --device emulated --ranks 1 --model synthetic --steps 1 --stages ddp");
  };
  const Outcome old = of_driver("12000");
  EXPECT_EQ(old.code, 5) << old.err;
  EXPECT_EQ(lines_in(old.err), 1) << old.err;
  EXPECT_NE(old.err.find("the driver is of CUDA 12.0, and kernels need one of 12.1 or later"),
            std::string::npos)
      << old.err;
  EXPECT_EQ(of_driver("12010").code, 0);
}

TEST_F(Executable, ListsDevicesAndWhereRanksWouldGo) {
  const Outcome two = shell("ZP_EMULATED_CUDA_DEVICES=2 ZP devices --device emulated --ranks 3");
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_NE(two.out.find("\n2 "), std::string::npos) << two.out;  // the third rank
  EXPECT_EQ(shell("ZP devices --device cpu").code, 6);
}

}  // namespace
}  // namespace zp
