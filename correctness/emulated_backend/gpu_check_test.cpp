// scripts/gpu_check.sh, which is meant for machines with a GPU, as far as it goes without one: to its one
// line, and with the emulated GPU through every step.
#include <filesystem>
#include <fstream>

#include "correctness/suite/executable.hpp"

namespace zp {
namespace {

using GpuCheck = Executable;

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

// What was asked for wrongly, or is not there to build with.
TEST_F(GpuCheck, RefusesInOneLineBeforeItBegins) {
  const std::string emulated = " --device emulated --build " ZP_BUILD_FOLDER;
  const Outcome made = shell("mkdir " + file("bin") + " && cd " + file("bin") +
                             " && printf '#!/bin/sh\necho cmake version 3.22.1\n' >cmake"
                             " && printf '#!/bin/sh\necho GPU 0: one\n' >nvidia-smi"
                             " && printf '#!/bin/sh\n' >nvcc && chmod +x cmake nvidia-smi nvcc");
  ASSERT_EQ(made.code, 0) << made.err;
  struct Case {
    std::string before, words;
    int code;
    std::string said;
  };
  const std::vector<Case> cases{
      {"", emulated + " --seconds 5m", 6, "--seconds 5m: a whole number of seconds is needed"},
      {"", emulated + " --out " + file("none/check.jsonl"), 6,
       "--out " + file("none/check.jsonl") + ": No such file or directory"},
      {"PATH=" + file("bin") + ":$PATH ", "", 5,
       "CMake 3.25 or later is needed to build with; here is 3.22.1"}};
  for (const Case& one : cases) {
    const Outcome outcome = shell(one.before + ZP_SOURCE "/scripts/gpu_check.sh" + one.words);
    EXPECT_EQ(outcome.code, one.code) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.err, "gpu_check.sh: " + one.said + "\n");
  }
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
  const Outcome hung = shell("ZP_EMULATED_CUDA_STALL_AT=30 timeout 2 " + hashes + "emulated odd");
  EXPECT_EQ(hung.code, 124);
  EXPECT_GT(lines_in(hung.out), 1) << "only the head came before its end";
  EXPECT_TRUE(whole.out.starts_with(hung.out)) << hung.out;
  const Outcome failed = shell("ZP_EMULATED_CUDA_MEMORY_MB=8 " + hashes + "emulated large");
  EXPECT_EQ(failed.code, 5);
  EXPECT_TRUE(failed.err.starts_with("kernel_hashes: gemm forward, large: GPU 0: ")) << failed.err;
}

}  // namespace
}  // namespace zp
