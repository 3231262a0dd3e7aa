// No kernel of the product races within a block, nor between blocks in the device's memory where it has no
// shared memory, whose place emulated blocks have one after another; each barrier of a block or a warp that
// its sources hold is come to, and is needed: without those of one line the thread sanitizer reports a race.
// So is each wait for asynchronous copies: without it results are others.
// Built where ZP_SANITIZE is thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "correctness/emulated_backend/race_run.hpp"

namespace zp {
namespace {

Ended run_kernels(const std::string& arguments, int seed, const std::string& check = "1") {
  return run_ordered(ZP_KERNEL_RACES_PROGRAM, arguments,
                     {.schedule = "free", .seed = seed, .more = "ZP_EMULATED_CUDA_RACE_CHECK=" + check});
}

bool waits_for_copies(const std::string& text) {
  return text.find("__pipeline_wait_prior(") != std::string::npos;
}

// Text of the lines that hold a barrier or a wait for copies, by "FILE LINE". (A shuffle hands a value on,
// and orders no memory.)
std::map<std::string, std::string> barriers_in_sources() {
  const std::regex barrier(R"(\b__sync(threads|warp)\w*\(|\b__pipeline_wait_prior\()");
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(ZP_KERNELS)) {
    std::ifstream in(entry.path());
    std::string text;
    for (int line = 1; std::getline(in, text); ++line) {
      if (std::regex_search(text.substr(0, text.find("//")), barrier))
        found[entry.path().filename().string() + " " + std::to_string(line)] = text;
    }
  }
  return found;
}

struct Printed {
  std::string hashes;
  std::set<std::string> met;
};

Printed parsed(const std::string& printed) {
  Printed all;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("hash ")) {
      all.hashes += line + "\n";
    } else {
      all.met.insert(std::filesystem::path(line).filename().string());
    }
  }
  return all;
}

// Needed from a warp's second lot on, which a sum of squares comes to above 16 Mi elements: more than can be
// emulated.
bool is_out_of_reach(const std::string& text) {
  return text == "    __syncwarp();  // before the rows are brought anew";
}

TEST(CudaKernelBarriers, AreEnoughAndNeeded) {
  const Ended right = run_kernels("", 1);
  ASSERT_EQ(right.code, 0);
  const auto [hashes, met] = parsed(right.text);
  int out_of_reach = 0, waits = 0;
  for (const auto& [barrier, text] : barriers_in_sources()) {
    EXPECT_TRUE(met.contains(barrier)) << barrier;
    if (is_out_of_reach(text)) {
      ++out_of_reach;
      continue;
    }
    const Ended without = run_kernels(barrier, 2);
    if (waits_for_copies(text)) {
      ++waits;
      const std::string others = parsed(without.text).hashes;
      EXPECT_EQ(without.code, 0) << barrier;
      EXPECT_EQ(std::ranges::count(others, '\n'), std::ranges::count(hashes, '\n')) << barrier;
      EXPECT_NE(others, hashes) << barrier;
    } else {
      EXPECT_EQ(without.code, kRaceExit) << barrier;
    }
  }
  EXPECT_GT(waits, 1);
  EXPECT_EQ(barriers_in_sources().size(), met.size()) << right.text;
  EXPECT_EQ(out_of_reach, 1);
}

TEST(CudaKernelBlocks, DoNotRace) {
  const Ended apart = run_kernels(
      "'layer norm' 'add bias' gelu 'gelu backward' add embedding 'embedding backward' 'cross entropy' "
      "'cross entropy backward' 'cast to bf16' 'fold of 2' 'integer fold of 2' 'to fixed accumulating' adamw "
      "sgd hash 'replica hash' initialize 'synthetic gradient'",
      1, "2");
  EXPECT_EQ(apart.code, 0);
}

}  // namespace
}  // namespace zp
