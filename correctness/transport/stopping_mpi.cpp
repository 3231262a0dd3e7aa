// A library to preload into a rank: MPI's sums, at one of which a rank stops for good. ZP_STOP says
// "rank=R,sum=K,how"; K counts a rank's sums from 0; how: it never comes to the sum (before), MPI has begun
// it (inside), or the rank's process ends (leaves).
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

// How this rank stops at the sum that it comes to now; "" where it goes on.
std::string_view how_it_stops() {
  static int sums = 0;
  int rank = 0, stopped = -1, at = -1, end = 0;
  const char* text = std::getenv("ZP_STOP");
  if (text == nullptr || std::sscanf(text, "rank=%d,sum=%d,%n", &stopped, &at, &end) != 2) return {};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank == stopped && sums++ == at ? text + end : "";
}

[[noreturn]] void stop() {
  constexpr unsigned kLongest = 9;  // seconds, where nobody ends the job: more than others wait
  sleep(kLongest);
  _exit(1);
}

template <class F>
int around(const F& sum) {
  const std::string_view how = how_it_stops();
  if (how == "leaves") _exit(1);
  if (how == "before") stop();
  const int result = sum();
  if (how == "inside") stop();
  return result;
}

}  // namespace

extern "C" int MPI_Ireduce_scatter(const void* from, void* to, const int counts[], MPI_Datatype type,
                                   MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return around([&] { return PMPI_Ireduce_scatter(from, to, counts, type, op, comm, request); });
}

extern "C" int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm, MPI_Request* request) {
  return around([&] { return PMPI_Iallreduce(from, to, count, type, op, comm, request); });
}
