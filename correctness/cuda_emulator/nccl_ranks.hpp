// What one rank does in the tests of the emulated NCCL, be it a thread or a process; each returns whether
// this rank got what it should. Numbers differ at every rank and element, and sum exactly.
#pragma once

#include <nccl.h>

#include <cstdio>
#include <cstdlib>

#include "correctness/cuda_emulator/checked.hpp"

namespace zp::lab {

inline void must(ncclResult_t result, Spot spot = {}) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s:%d: %s\n", spot.file, spot.line, ncclGetErrorString(result));
  std::exit(3);
}

// A rank on the device of its number.
class Rank {
 public:
  Rank(int world, int rank, const ncclUniqueId& id) : world(world), rank(rank) {
    lab::must(cudaSetDevice(rank));
    lab::must(ncclCommInitRank(&comm, world, id, rank));
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() { lab::must(ncclCommDestroy(comm)); }

  const int world;
  const int rank;
  ncclComm_t comm = nullptr;
};

bool gathers(const Rank& mine);
bool gathers_in_place(const Rank& mine);
bool scatters_sums(const Rank& mine);
bool adds_up(const Rank& mine);
bool takes_extremes_and_means(const Rank& mine);
bool reduces_and_broadcasts(const Rank& mine);
bool sends_round(const Rank& mine);
bool uses_two_streams(const Rank& mine);
bool adds_bf16(const Rank& mine);

}  // namespace zp::lab
