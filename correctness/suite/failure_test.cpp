// After a failure every rank reaches the same error from the same accounts; differing logs outrank everything
// else.
#include "harness/suite/failure.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "harness/suite/element_check.hpp"

namespace zp {
namespace {

LogEntry entry(int64_t sequence, int tensor) {
  LogEntry e;
  e.sequence = sequence;
  e.tensor = tensor;
  e.count = {640};
  return e;
}

LastWords words(int rank, Exit code, std::string text, std::vector<LogEntry> log = {}) {
  LastWords w;
  w.rank = rank;
  w.place = rank;
  w.code = code;
  w.text = std::move(text);
  w.log = std::move(log);
  return w;
}

TEST(Failure, AnotherErrorOutranksTheTimeoutsThatItCaused) {
  const Error error = settle(
      {words(0, Exit::timeout, "waited"), words(2, Exit::bits, "NaN"), words(3, Exit::timeout, "waited")},
      "stage x");
  EXPECT_EQ(error.code(), Exit::bits);
  EXPECT_EQ(std::string(error.what()), "stage x: NaN");
}

TEST(Failure, TheFirstTimeoutSpeaksForAll) {
  const Error error =
      settle({words(1, Exit::timeout, "rank 1 waited"), words(2, Exit::timeout, "rank 2 waited")}, "s");
  EXPECT_EQ(error.code(), Exit::timeout);
  EXPECT_EQ(std::string(error.what()), "s: rank 1 waited");
}

TEST(Failure, DifferingLogsOutrankATimeoutAndNameTheFirstDifference) {
  const Error error = settle({words(0, Exit::timeout, "waited", {entry(4, 1), entry(5, 2), entry(6, 3)}),
                              words(1, Exit::timeout, "waited", {entry(4, 1), entry(5, 3), entry(6, 2)})},
                             "stage zero3");
  EXPECT_EQ(error.code(), Exit::transport);
  const std::string text = error.what();
  EXPECT_NE(text.find("number 5"), std::string::npos) << text;
  EXPECT_NE(text.find("tensor 2"), std::string::npos) << text;
  EXPECT_NE(text.find("tensor 3"), std::string::npos) << text;
}

TEST(Failure, ALogThatEndsEarlierIsNoDifference) {
  const Error error = settle({words(0, Exit::timeout, "waited", {entry(4, 1), entry(5, 2)}),
                              words(1, Exit::timeout, "late", {entry(4, 1)})},
                             "s");
  EXPECT_EQ(error.code(), Exit::timeout);
}

TEST(Ulps, CountTheNumbersBetween) {
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  EXPECT_EQ(ulps_between(bits(1.0F), bits(1.0F), Type::f32), 0);
  EXPECT_EQ(ulps_between(bits(1.0F), bits(std::nextafter(1.0F, 2.0F)), Type::f32), 1);
  EXPECT_EQ(ulps_between(bits(0.0F), bits(-0.0F), Type::f32), 0);
  EXPECT_EQ(ulps_between(bits(-0x1p-149F), bits(0x1p-149F), Type::f32), 2);
  EXPECT_EQ(ulps_between(0x3f80, 0x3f82, Type::bf16), 2);
  EXPECT_EQ(ulps_between(0x8001, 0x0001, Type::bf16), 2);
}

}  // namespace
}  // namespace zp
