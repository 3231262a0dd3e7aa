// scripts/gpu_check.sh, which is meant for machines with a GPU, as far as it goes without one: to its one
// line, and with the emulated GPU through every step.
#include <filesystem>
#include <fstream>

#include "correctness/suite/executable.hpp"

namespace zp {
namespace {

class GpuCheck : public Executable {
 protected:
  // The check in a copy of the tree without history, on a machine that is not there: a GPU that nvidia-smi
  // lists without saying what it can do, an MPI that CMake does not find, a CMake that is too old in PATH and
  // a newer one beside python3. `parts` is the shell script that stands for compilers; CMake's words are in
  // "cmake.log", the records in "check.jsonl". `otherwise` changes the machine, in folder $F.
  Outcome on_a_machine(const std::string& parts, const std::string& otherwise = "") const {
    std::ofstream(file("parts")) << kBuilt << parts;
    Outcome made = shell("F=" + file("") + "; " + kMachine + otherwise);
    if (made.code != 0) return made;
    return shell("cd " + file("tree") + " && PATH=" + file("bin") + ":$PATH scripts/gpu_check.sh --out " +
                 file("check.jsonl"));
  }
  size_t place_of(const std::string& step) const {
    return text_of(file("check.jsonl")).find("\"step\": \"" + step + "\"");
  }

 private:
  static constexpr const char* kMachine =
      R"(rm -rf $F/tree $F/bin $F/beside; mkdir -p $F/tree $F/bin $F/beside
cp -r )" ZP_SOURCE R"(/scripts $F/tree/; mkdir $F/tree/gpu_pack; echo packed-7 >$F/tree/gpu_pack/revision
program() { cat >$1; chmod +x $1; }
echo 'echo GPU 0: one' | program $F/bin/nvidia-smi
for name in nvcc mpicc mpirun compute-sanitizer; do echo : | program $F/bin/$name; done
echo 'echo cmake version 3.22.1' | program $F/bin/cmake
python=$(command -v python3)
echo "case \$2 in *sysconfig*) echo $F/beside ;; *) exec $python \"\$@\" ;; esac" | program $F/bin/python3
program $F/beside/cmake <<END
case \$1 in
  --version) echo cmake version 3.30.0 ;;
  --build) echo "\$*" >>$F/cmake.log; cd build-gpu; . $F/parts ;;
  *) echo "\$*" >>$F/cmake.log
     case "\$*" in *ZP_MPI=ON*) echo Could NOT find MPI >&2; exit 1 ;; esac
     mkdir -p build-gpu; echo ZP_MPI:BOOL=OFF >build-gpu/CMakeCache.txt ;;
esac
END
)";
  // What builds do: `makes NAME` makes a program of the text that follows.
  static constexpr const char* kBuilt = "makes() { cat >$1; chmod +x $1; }\n";
};

TEST_F(GpuCheck, SaysInOneLineThatThereIsNoGpu) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a driver here";
  const Outcome outcome = shell(ZP_SOURCE "/scripts/gpu_check.sh --build " ZP_BUILD_FOLDER);
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(lines_in(outcome.err), 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("gpu_check.sh: there is no GPU here: ")) << outcome.err;
}

TEST_F(GpuCheck, GoesThroughEveryStepOnTheEmulatedGpu) {
  const Outcome outcome =
      shell(ZP_SOURCE "/scripts/gpu_check.sh --device emulated --build " ZP_BUILD_FOLDER " --out " +
            file("check.jsonl"));
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  std::vector<const char*> steps{"a device that computes",
                                 "devices",
                                 "kernels against golden hashes",
                                 "stages, N = 4, threads, tiny-bf16-fp32grad",
                                 "kernel rates",
                                 "throughput, ordered math",
                                 "throughput, vendor math"};
  if (ZP_NCCL != 0) steps.push_back("stages, N = 1, nccl");
  for (const char* step : steps) {
    const size_t at = outcome.out.find(std::string("s  ") + step);
    ASSERT_NE(at, std::string::npos) << step << "\n" << outcome.out;
    EXPECT_TRUE(outcome.out.substr(outcome.out.rfind('\n', at) + 1).starts_with("passed ")) << outcome.out;
  }
  if (ZP_NCCL != 0) {
    EXPECT_NE(outcome.out.find("3 claims proved, 0 refuted, 1 not measured; exit 0\n"), std::string::npos)
        << "bytes that NCCL sends are not among what passed\n"
        << outcome.out;
  }
  EXPECT_NE(outcome.out.find("not measured          compute-sanitizer memcheck"), std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("\nbf16 tensor cores: not measured: "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" 0 failed"), std::string::npos) << outcome.out;
  const std::string records = text_of(file("check.jsonl"));
  EXPECT_NE(records.find("{\"schema\": \"zeroproof/stage/1\""), std::string::npos) << records;
  EXPECT_NE(records.find("\"gemm forward, odd\": \""), std::string::npos);
}

// What was asked for wrongly.
TEST_F(GpuCheck, RefusesInOneLineBeforeItBegins) {
  const std::string emulated = " --device emulated --build " ZP_BUILD_FOLDER;
  struct Case {
    std::string words, said;
  };
  const std::vector<Case> cases{{" --seconds 5m", "--seconds 5m: a whole number of seconds is needed"},
                                {" --out " + file("none/check.jsonl"),
                                 "--out " + file("none/check.jsonl") + ": No such file or directory"}};
  for (const Case& one : cases) {
    const Outcome outcome = shell(ZP_SOURCE "/scripts/gpu_check.sh" + emulated + one.words);
    EXPECT_EQ(outcome.code, 6) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.err, "gpu_check.sh: " + one.said + "\n");
  }
}

// Nobody may see what was printed: the records alone come back.
TEST_F(GpuCheck, RecordsWhyItStopsEvenWhereItCannotBuild) {
  const Outcome outcome = on_a_machine("", "rm $F/beside/cmake");
  EXPECT_EQ(outcome.code, 5);
  const std::string said = "CMake 3.25 or later is needed to build with; here is 3.22.1";
  EXPECT_EQ(outcome.err, "gpu_check.sh: " + said + "\n");
  const std::string records = text_of(file("check.jsonl"));
  EXPECT_EQ(lines_in(records), 2) << records;
  EXPECT_NE(records.find("\"step\": \"begin\""), std::string::npos) << records;
  EXPECT_NE(records.find("\"step\": \"stop\", \"verdict\": \"not measured\", \"reason\": \"" + said),
            std::string::npos)
      << records;
}

// One file does not compile, and no claim of the first step holds: everything else is measured all the same.
TEST_F(GpuCheck, GoesOnWhereAPartIsNotBuiltOrAClaimIsRefuted) {
  const Outcome outcome = on_a_machine(
      "echo 'echo refuted >&2; exit 7' | makes zeroproof\n"
      "echo : | makes libzeroproof_cuda.so\n"
      "printf 'printf \"kind\\\\tname\\\\tverdict\\\\n\"' | makes cuda_rates\n"
      "echo 'main.cpp:7: error: no such thing'; yes 'other words' | head -5000; exit 1\n");
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("  main.cpp:7: error: no such thing\n"), std::string::npos) << outcome.err;
  const std::string records = text_of(file("check.jsonl"));
  for (const char* part :
       {R"("revision": "packed-7")", R"("complaints": ["main.cpp:7: error: no such thing"])",
        R"("verdict": "not measured", "reason": "kernel_hashes was not built")",
        R"("step": "a device that computes", "verdict": "failed")",
        R"("log": {"out": "", "err": "refuted\n"})", R"("step": "kernel rates", "verdict": "passed")"})
    EXPECT_NE(records.find(part), std::string::npos) << part << "\n" << records;
  // What is wanted most comes before what takes longest.
  EXPECT_LT(place_of("kernel rates"), place_of("throughput, vendor math"));
  EXPECT_LT(place_of("throughput, vendor math"), place_of("throughput, ordered math"));
  EXPECT_LT(place_of("throughput, ordered math"), place_of("compute-sanitizer memcheck"));
  EXPECT_NE(place_of("compute-sanitizer racecheck"), std::string::npos) << records;
  const std::string cmake = text_of(file("cmake.log"));
  EXPECT_NE(cmake.find("-DZP_MPI=OFF -DZP_CUDA_TARGETS=native"), std::string::npos) << cmake;
  EXPECT_NE(cmake.find(" -- -k"), std::string::npos) << cmake;
  EXPECT_TRUE(std::filesystem::exists(file("check.jsonl.logs.tgz")));
}

TEST_F(GpuCheck, BuildsWithoutWhatReadsForeignHeadersWhereNothingWasBuilt) {
  const Outcome outcome = on_a_machine("echo 'nccl.cpp: error: no'; exit 1\n");
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  EXPECT_NE(place_of("build without MPI, NCCL and cuBLASLt"), std::string::npos) << outcome.out;
  EXPECT_NE(text_of(file("cmake.log")).find("-DZP_NCCL_INCLUDE= -DZP_CUBLASLT_INCLUDE="), std::string::npos);
  EXPECT_NE(text_of(file("check.jsonl")).find("\"step\": \"stop\""), std::string::npos);
}

// Where CUDA fails, kernels one by one say in which; where there is no GPU, nothing can.
TEST_F(GpuCheck, StopsWhereNoGpuComputes) {
  struct Case {
    const char* code;
    int returned;
    bool hashes;
  };
  for (const Case& one : {Case{"2", 2, true}, Case{"4", 4, true}, Case{"5", 5, false}}) {
    const Outcome outcome = on_a_machine(
        std::string("echo 'echo words >&2; exit ") + one.code +
        "' | makes zeroproof; for x in libzeroproof_cuda.so kernel_hashes; do echo : | makes $x; done\n");
    EXPECT_EQ(outcome.code, one.returned) << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find("gpu_check.sh: words\n"), std::string::npos) << outcome.err;
    EXPECT_EQ(place_of("kernels against golden hashes") != std::string::npos, one.hashes) << outcome.out;
    EXPECT_EQ(place_of("kernel rates"), std::string::npos) << outcome.out;
  }
}

TEST_F(GpuCheck, KeepsTheRatesBeforeAKernelThatHangs) {
  const Outcome hung =
      shell("ZP_EMULATED_CUDA_STALL_AT=60 timeout 8 " ZP_BUILD_FOLDER "/cuda_rates_emulated tiny");
  EXPECT_EQ(hung.code, 124);
  EXPECT_GT(lines_in(hung.out), 1) << hung.out;
  EXPECT_TRUE(hung.out.ends_with("\n")) << hung.out;
}

// A row that was cut would be taken for another number, or end the summary.
TEST_F(GpuCheck, LeavesOutRowsThatWereCut) {
  std::ofstream(file("log.out")) << "kind\tname\tverdict\tseconds\trate\tunit\tceiling\tceiling_rate\tshare\n"
                                    "kernel\tgelu\tmeasured\t1\t1234\tGB/s\tcopy\t2000\t0.62\n"
                                    "kernel\tadd\tmeasured\t1\t\tGB/s\tcopy\t2000\t0.62\n"
                                    "kernel\tlost\tINVALID: bits\t\t\t\t\t\t\n"
                                    "kernel\tsgd\tmeasured\t1\t17";
  std::ofstream(file("all.jsonl")) << "{\"schema\": \"one\", \"device\": \"cuda\"}\n";
  const std::string record = "python3 " ZP_SOURCE "/scripts/gpu_record.py ";
  const Outcome step =
      shell(record + "step --out " + file("all.jsonl") + " --name 'kernel rates' --exit 124" +
            " --seconds 120 --given 120 --most 120 --log " + file("log"));
  EXPECT_EQ(step.code, 124) << step.err;
  const Outcome summary = shell(record + "summary --out " + file("all.jsonl"));
  EXPECT_EQ(summary.code, 124) << summary.err;
  EXPECT_NE(summary.out.find("it was not over after 120 s; rows that were cut and left out: 2\n"),
            std::string::npos)
      << summary.out;
  EXPECT_NE(summary.out.find("gelu: 1234 GB/s, 0.62 of copy"), std::string::npos) << summary.out;
  EXPECT_NE(summary.out.find("lost: INVALID: bits\n"), std::string::npos) << summary.out;
  EXPECT_EQ(summary.out.find("sgd"), std::string::npos) << summary.out;
}

// What `timeout` ended: a failure where the step had all of its time, and not what the end of the budget cut.
TEST_F(GpuCheck, HoldsNothingAgainstAStepThatHadLessThanItsTime) {
  struct Case {
    const char *name, *code, *given;
    int returned;
    const char* recorded;
  };
  const std::vector<Case> cases{
      {"kernel rates", "124", "7", 5, "\"not measured\", \"reason\": \"7 s were left\""},
      {"kernel rates", "137", "7", 5, "\"not measured\", \"reason\": \"7 s were left\""},
      {"kernel rates", "137", "12", 137, "\"failed\", \"reason\": \"end\""},
      {"kernel rates", "124", "90", 124, "\"failed\", \"reason\": \"it was not over after 90 s\""},
      {"compute-sanitizer memcheck", "124", "90", 5,
       "\"not measured\", \"reason\": \"it was not over after 11 s\""},
      {"compute-sanitizer memcheck", "4", "90", 5,
       "\"not measured\", \"reason\": \"it was not over after 11 s\""},
      {"compute-sanitizer memcheck", "86", "90", 5,
       "\"not measured\", \"reason\": \"Error: Device not supported\""},
      {"kernel rates", "3", "90", 3, "\"failed\", \"reason\": \"end\""}};
  for (const Case& one : cases) {
    const std::string words = std::string_view(one.code) == "86" || one.returned == 3
                                  ? "========= Error: Device not supported\nend\n"
                                  : "end\n";
    std::ofstream(file("log.err")) << words;
    const Outcome outcome =
        shell("rm -f " + file("all.jsonl") + "; python3 " ZP_SOURCE "/scripts/gpu_record.py step --out " +
              file("all.jsonl") + " --name '" + one.name + "' --exit " + one.code + " --seconds 11 --given " +
              one.given + " --most 90 --log " + file("log"));
    EXPECT_EQ(outcome.code, one.returned) << outcome.err;
    EXPECT_NE(text_of(file("all.jsonl")).find(one.recorded), std::string::npos) << text_of(file("all.jsonl"));
  }
}

// Whoever is ended while it writes leaves half a line.
TEST_F(GpuCheck, KeepsTheWholeRecordsOfAStepThatLeftHalfALine) {
  std::ofstream(file("log.jsonl")) << "{\"schema\": \"one\"}\n{\"schema\": \"zeropr";
  std::ofstream(file("log.err")) << "end\n";
  const auto step = [&](const std::string& code) {
    return shell("rm -f " + file("all.jsonl") + "; python3 " ZP_SOURCE "/scripts/gpu_record.py step --out " +
                 file("all.jsonl") + " --name stages --exit " + code + " --seconds 90 --given 90 --most 90 " +
                 "--log " + file("log"));
  };
  EXPECT_EQ(step("124").code, 124);
  std::string all = text_of(file("all.jsonl"));
  EXPECT_NE(all.find("\"reason\": \"it was not over after 90 s\""), std::string::npos) << all;
  EXPECT_TRUE(all.ends_with("\n{\"schema\": \"one\"}\n")) << all;
  EXPECT_EQ(step("0").code, 1);
  all = text_of(file("all.jsonl"));
  EXPECT_NE(all.find("\"reason\": \"line 2 of what it recorded is no record\""), std::string::npos) << all;
}

TEST_F(GpuCheck, SaysWhichLineOfItsFileIsNoRecord) {
  for (const char* line : {"{\"schema\": \"zeropr", "7"}) {
    std::ofstream(file("all.jsonl")) << "{\"schema\": \"one\"}\n" << line;
    const Outcome outcome =
        shell("python3 " ZP_SOURCE "/scripts/gpu_record.py summary --out " + file("all.jsonl"));
    EXPECT_EQ(outcome.code, 6) << outcome.out;
    EXPECT_EQ(outcome.err, "gpu_check.sh: --out " + file("all.jsonl") + ": line 2 is no record\n");
  }
}

// Of a file whose digits of one kernel are others, that kernel alone is named.
TEST_F(GpuCheck, NamesTheKernelWhoseHashIsAnother) {
  const Outcome changed =
      shell("sed '/^gelu backward, odd:/s/: ./: x/' " ZP_SOURCE "/results/golden/kernels.txt >" +
            file("kernels.txt"));
  ASSERT_EQ(changed.code, 0);
  const Outcome outcome = shell(ZP_BUILD_FOLDER "/kernel_hashes cpu odd " + file("kernels.txt"));
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(lines_in(outcome.err), 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("cpu: gelu backward, odd: got ")) << outcome.err;
}

// Of kernels one after another: one that never ends, and one for which the device has too little memory.
TEST_F(GpuCheck, KeepsTheHashesBeforeAKernelThatHangsAndNamesOneThatFails) {
  const std::string hashes = ZP_BUILD_FOLDER "/kernel_hashes ";
  const Outcome whole = shell(hashes + "cpu odd");
  const Outcome hung = shell("ZP_EMULATED_CUDA_STALL_AT=30 timeout 8 " + hashes + "emulated odd");
  EXPECT_EQ(hung.code, 124);
  EXPECT_GT(lines_in(hung.out), 1) << "only the head came before its end";
  EXPECT_TRUE(whole.out.starts_with(hung.out)) << hung.out;
  const Outcome failed = shell("ZP_EMULATED_CUDA_MEMORY_MB=8 " + hashes + "emulated large");
  EXPECT_EQ(failed.code, 5);
  EXPECT_TRUE(failed.err.starts_with("kernel_hashes: gemm forward, large: GPU 0: ")) << failed.err;
}

}  // namespace
}  // namespace zp
