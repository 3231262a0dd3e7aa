// scripts/gpu_check.sh, which is meant for machines with a GPU, as far as it goes without one: to its one
// line, and with the emulated GPU through every step.
#include "correctness/suite/executable.hpp"

namespace zp {
namespace {

using GpuCheck = Executable;

TEST_F(GpuCheck, SaysInOneLineThatThereIsNoGpu) {
  const Outcome outcome = shell(ZP_SOURCE "/scripts/gpu_check.sh --build " ZP_BUILD_FOLDER);
  if (outcome.code != 5) GTEST_SKIP() << "there is a GPU here";
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

}  // namespace
}  // namespace zp
