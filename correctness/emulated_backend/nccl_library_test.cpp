// NCCL as a library that is opened: what is said where it is missing, and that the real one, where it is
// installed, has all that is called here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness/transport/nccl_functions.hpp"
#include "harness/transport/nccl_words.hpp"

namespace zp {
namespace {

TEST(NcclLibrary, IsMissingInTheLoadersWords) {
  for (const char* name : {"libnccl_that_is_not_here.so.2", "libm.so.6"}) {
    try {
      open_nccl(name);
      ADD_FAILURE() << name << " was taken for NCCL";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::unavailable);
      EXPECT_NE(std::string(error.what()).find("NCCL: "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(NcclLibrary, HasAllThatIsCalled) {
#ifdef ZP_NCCL_LIBRARY
  const NcclFunctions nccl = open_nccl(ZP_NCCL_LIBRARY);
  EXPECT_GE(checked_version(nccl), 21800);
  EXPECT_STREQ(nccl.get_error_string(ncclSuccess), "no error");
#else
  GTEST_SKIP() << "no libnccl.so.2 is installed here";
#endif
}

// The real one, on a machine that has no driver: the id needs none, the communicator does.
TEST(NcclLibrary, IsNotAvailableWithoutADriverInItsOwnWords) {
#ifdef ZP_NCCL_LIBRARY
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a driver here";
  const NcclFunctions nccl = open_nccl(ZP_NCCL_LIBRARY);
  constexpr double kTimeout_s = 30.0;
  transport_named("threads").run(1, kTimeout_s, [&](Endpoint& endpoint) {
    const auto device = make_cuda_device(0, Fill::zero);
    const auto stream = device->make_stream();
    try {
      make_nccl_carrier(nccl, *device, *stream, *endpoint.control, kTimeout_s);
      ADD_FAILURE() << "ranks came together";
    } catch (const Error& error) {
      const std::string said = error.what();
      EXPECT_EQ(error.code(), Exit::unavailable) << said;
      EXPECT_TRUE(said.starts_with("NCCL: ncclCommInitRankConfig: ")) << said;
      EXPECT_NE(said.find("driver"), std::string::npos) << said;
      EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    }
  });
#else
  GTEST_SKIP() << "no libnccl.so.2 is installed here";
#endif
}

// As NCCL 2.2x writes them.
constexpr std::string_view kLog =
    "host:7:9 [0] NCCL INFO Using network Socket\n"
    "host:7:9 [0] NCCL INFO ncclCommInitRankConfig comm 0x5581 rank 0 nranks 2 - Init START\n"
    "host:7:9 [0] NCCL INFO NVLS multicast support is not available on dev 0 (NVLS_NCHANNELS 0)\n"
    "host:7:9 [0] NCCL INFO Channel 00/02 : 0 1\n"
    "host:7:9 [0] NCCL INFO Channel 01/02 : 0 1\n"
    "host:7:9 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p "
    "channels per peer\n"
    "host:7:11 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n"
    "host:7:11 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n";

TEST(NcclWords, AreTheTellingLinesOfItsLogEachOnce) {
  const std::vector<std::string> words = words_in(kLog);
  ASSERT_EQ(words.size(), 5U);
  EXPECT_EQ(words.front(), "Using network Socket");
  EXPECT_EQ(words.back(), "AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}");
  EXPECT_TRUE(words_in("").empty());
}

TEST(NcclWords, AreAskedForUnlessTheLogIsToGoElsewhere) {
  unsetenv("NCCL_DEBUG_FILE");
  setenv("NCCL_DEBUG", "WARN", 1);
  ask_nccl_for_words(CarrierLog::calls);
  EXPECT_EQ(std::getenv("NCCL_DEBUG_FILE"), nullptr);
  EXPECT_EQ(nccl_log(), "");
  unsetenv("NCCL_DEBUG");
  ask_nccl_for_words(CarrierLog::calls);
  EXPECT_EQ(nccl_log(), "INIT,P2P,NET,NVLS,TUNING");
  ASSERT_NE(std::getenv("NCCL_DEBUG_FILE"), nullptr);
  EXPECT_TRUE(nccl_words().empty());
  std::ofstream(std::getenv("NCCL_DEBUG_FILE")) << kLog;
  EXPECT_EQ(nccl_words(), words_in(kLog));
}

// TUNING and COLL write whenever a collective is called.
TEST(NcclWords, LeaveOutEveryCallWhereTheyAreToTakeNoTime) {
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) unsetenv(name);
  ask_nccl_for_words(CarrierLog::connections);
  EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(nccl_log(), "INIT,P2P,NET,NVLS");
}

ncclResult_t old_version(int* version) {
  *version = 21403;
  return ncclSuccess;
}

TEST(NcclLibrary, IsRefusedWhereItIsOlderThanItsHeader) {
  NcclFunctions nccl;
  nccl.get_version = old_version;
  try {
    checked_version(nccl);
    ADD_FAILURE() << "an old library was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::unavailable);
    EXPECT_NE(std::string(error.what()).find("NCCL 2.14.3 is here, which is older"), std::string::npos);
  }
}

}  // namespace
}  // namespace zp
