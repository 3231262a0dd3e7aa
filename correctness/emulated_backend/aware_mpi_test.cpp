// Ranks that are processes on the device that emulates CUDA, whose MPI says that it is GPU-aware.
#include "correctness/emulated_backend/small_runs.hpp"
#include "correctness/suite/executable.hpp"

namespace zp {
namespace {

// MPI says of itself what it is preloaded with, and of the emulated device that is true.
const std::string kAwareMpi = "export LD_PRELOAD=" ZP_AWARE_MPI " ZP_EMULATED_CUDA_GUARD=0; ";

struct Way {
  int ranks;
  const char* stages;
  const char* route;
  const char* claims;
};

// The same job staged pins memory of the host, and says so.
TEST_F(Executable, ProvesEmulatedMemoryGivenToAGpuAwareMpiWithTheHashOfTheHost) {
  const std::string host = first_hash(shell("ZP verify --ranks 1 --stages ddp" + kTiniest).out);
  for (const Way& way :
       {Way{2, "all", "gpu-aware", "24 claims"}, Way{4, "ddp,zero3", "gpu-aware", "8 claims"},
        Way{2, "zero2", "staged", "4 claims"}}) {
    const bool staged = std::string(way.route) == "staged";
    EXPECT_EQ(launch(way.ranks,
                     std::string("verify --device emulated --stages ") + way.stages + kTiniest +
                         (staged ? " --mpi-buffers staged" : "") + " --overwrite --out " + file("run.jsonl"),
                     kAwareMpi),
              std::vector<int>(static_cast<size_t>(way.ranks), 0))
        << text_of(file("err.0"));
    const std::string said = text_of(file("out"));
    EXPECT_NE(said.find(std::string(way.claims) + " proved, 0 refuted; exit 0"), std::string::npos) << said;
    EXPECT_NE(said.find(staged ? "staged through pinned memory (--mpi-buffers staged)"
                               : "given to MPI where they lie (MPI says that it is"),
              std::string::npos)
        << said;
    EXPECT_EQ(first_hash(said), host) << way.ranks << way.route;
    const std::string records = text_of(file("run.jsonl"));
    EXPECT_NE(records.find(std::string(R"("route":")") + way.route), std::string::npos) << records;
    EXPECT_EQ(records.find(R"("pinned_bytes":0,)") == std::string::npos, staged) << records;
  }
}

// On all ranks or on none.
TEST_F(Executable, StagesMessagesOfEveryRankWhereOneRanksMpiIsNotGpuAware) {
  EXPECT_EQ(launch(2, "verify --device emulated --model synthetic --steps 1 --stages ddp",
                   "if [ $OMPI_COMM_WORLD_RANK = 0 ]; then " + kAwareMpi + "fi; "),
            (std::vector<int>{0, 0}))
      << text_of(file("err.0"));
  const std::string said = text_of(file("out"));
  EXPECT_NE(said.find("staged through pinned memory (MPI of rank 1 "), std::string::npos) << said;
}

struct Lie {
  const char* how;
  const char* words;
};

TEST_F(Executable, StagesMessagesWhereATrialShowsThatMpiIsNotGpuAwareAsItSays) {
  const std::string host = first_hash(shell("ZP verify --ranks 1 --stages ddp" + kTiniest).out);
  for (const Lie& lie : {Lie{"garbles", "from rank 1, which begins at byte 13, byte 20 of rank 0 is "},
                         Lie{"refuses", "MPI_Isend: MPI_ERR_BUFFER"},
                         Lie{"swallows", "a message of 262139 bytes from rank 1 did not come"}}) {
    EXPECT_EQ(launch(2,
                     "verify --device emulated --stages ddp --timeout 2 --overwrite --out " +
                         file("run.jsonl") + kTiniest,
                     kAwareMpi + "export ZP_AWARE_LIE=" + lie.how + "; "),
              (std::vector<int>{0, 0}))
        << text_of(file("err.0"));
    const std::string said = text_of(file("out"));
    EXPECT_EQ(first_hash(said), host) << said;
    std::string records = text_of(file("run.jsonl"));
    EXPECT_NE(records.find(R"("route":"staged")"), std::string::npos) << records;
    EXPECT_NE(records.find("says that it is GPU-aware, but in a trial: "), std::string::npos) << records;
    EXPECT_NE(records.find(lie.words), std::string::npos) << records;
    EXPECT_NE(said.find("(MPI says that it is GPU-aware, but "), std::string::npos) << said;
  }
}

TEST_F(Executable, RefusesRanksThatWereAskedToSendMessagesOfTheEmulatedDeviceOtherWays) {
  EXPECT_EQ(launch(2,
                   "verify --device emulated --model synthetic --steps 1 --stages ddp --mpi-buffers "
                   "$( [ $OMPI_COMM_WORLD_RANK = 1 ] && echo auto || echo staged )"),
            (std::vector<int>{6, 6}));
  const std::string said = text_of(file("err.0"));
  EXPECT_EQ(lines_in(said), 1) << said;
  EXPECT_NE(said.find("rank 0 has 'messages of devices staged', rank 1 has 'messages of devices auto'"),
            std::string::npos)
      << said;
}

TEST_F(Executable, HasNothingOnTheHostForABitflipToStrikeWhereMpiIsGivenTheDevicesMemory) {
  EXPECT_EQ(launch(2, "verify --device emulated --model synthetic --steps 1 --stages zero2 --inject bitflip",
                   kAwareMpi),
            (std::vector<int>{6, 6}));
  EXPECT_NE(text_of(file("err.0")).find("the fault never fired"), std::string::npos)
      << text_of(file("err.0"));
}

// Messages of a device's memory are taken back from MPI, and the ranks say why.
TEST_F(Executable, EndsOnEveryRankWhereMpiIsGivenMessagesThatNobodyTakes) {
  EXPECT_EQ(launch(2,
                   "verify --device emulated --model synthetic --steps 1 --stages zero3 --timeout 1 "
                   "--inject extra-message:rank=1",
                   kAwareMpi),
            (std::vector<int>{3, 3}));
  const std::string said = text_of(file("err.0"));
  EXPECT_EQ(lines_in(said), 1) << said;
  EXPECT_NE(said.find("collective logs differ"), std::string::npos) << said;
}

}  // namespace
}  // namespace zp
