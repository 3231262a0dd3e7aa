// Which sums are exact in any order, at the edge: held to the types themselves, and to what a library may
// add.
#include "harness/suite/exact_sums.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "harness/suite/command_line.hpp"

namespace zp {
namespace {

// The job of a command under a launcher.
Job job_of(const std::string& line, int world) {
  std::vector<std::string> words;
  std::istringstream stream("verify --steps 1 --model " + line);
  for (std::string word; stream >> word;) words.push_back(word);
  const Launch launch{.world = world, .rank = 0};
  return resolve(std::get<VerifyOptions>(parse_command_line(words, launch)), world, "mpi");
}

bool holds(Type type, int eighths) {
  const float x = static_cast<float>(eighths) / 8.0F;
  const float stored = type == Type::bf16 ? widen(round_to_bf16(x)) : x;
  return static_cast<double>(stored) * 8 == eighths;
}

TEST(ExactSums, AreThoseThatTheTypeHolds) {
  for (const Type type : {Type::bf16, Type::f32}) {
    // Terms are 8 eighths at most. Below a power of two every whole number is held where those just below it
    // are.
    const int most = 8 * most_exact_terms(type);
    for (int eighths = std::max(0, most - 1000); eighths <= most; ++eighths) {
      ASSERT_TRUE(holds(type, eighths)) << name_of(type) << " " << eighths;
      ASSERT_TRUE(holds(type, -eighths)) << name_of(type) << " " << -eighths;
    }
    EXPECT_FALSE(holds(type, most + 1)) << name_of(type) << " would hold more";
  }
  EXPECT_EQ(most_exact_terms(Type::bf16), 32);
}

TEST(ExactSums, OfBf16LetALibraryAddUpTo32MicroBatchesAtAnyNumberOfRanks) {
  for (const int world : {1, 2, 4, 8, 16, 32}) {
    const Job job = job_of("synthetic --recipe bf16 --algorithm native --micro-batches 32", world);
    EXPECT_TRUE(sums_are_exact(job)) << world;
    EXPECT_EQ(job.arithmetic_of(*job.rows.front()).batching.world, 1) << "judged by one device's order";
  }
  for (const int world : {1, 3, 11, 33}) {
    EXPECT_FALSE(
        sums_are_exact(job_of("synthetic --recipe bf16 --algorithm direct --micro-batches 33", world)));
    try {
      job_of("synthetic --recipe bf16 --algorithm native --micro-batches 33", world);
      ADD_FAILURE() << world << " ranks: accepted";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.code(), Exit::usage) << text;
      EXPECT_NE(text.find("bf16 gradients of the synthetic model are exact up to 32 micro-batches, not 33"),
                std::string::npos)
          << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
}

TEST(ExactSums, OfFp32LetALibraryAddMore) {
  EXPECT_TRUE(sums_are_exact(job_of("synthetic --recipe fp32 --algorithm native --micro-batches 4096", 2)));
  EXPECT_TRUE(sums_are_exact(job_of("synthetic --algorithm native --micro-batches 33", 3)));
}

TEST(ExactSums, AreNoMattersOfARealModel) {
  for (const char* recipe : {"bf16-fp32grad", "bf16", "fp32"}) {
    const std::string line = std::string("tiny --algorithm native --recipe ") + recipe;
    try {
      job_of(line, 2);
      ADD_FAILURE() << line << ": accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::usage);
      EXPECT_NE(std::string(error.what()).find("--model"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace zp
