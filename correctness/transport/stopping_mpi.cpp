// A library to preload into a rank: MPI's sums, at one of which a rank stops for good. ZP_STOP says
// "rank=R,sum=K,how"; K counts a rank's sums from 0; how: it never comes to the sum (before), MPI has begun
// it (inside), or the rank's process ends (leaves). Or messages: "rank=R,sum=K,message" stops at the K-th
// that the rank sends.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

// How this rank stops at the sum or the message that it comes to now; "" where it goes on.
std::string_view how_it_stops(bool at_message) {
  static int passed = 0;
  int rank = 0, stopped = -1, at = -1, end = 0;
  const char* text = std::getenv("ZP_STOP");
  if (text == nullptr || std::sscanf(text, "rank=%d,sum=%d,%n", &stopped, &at, &end) != 2) return {};
  const std::string_view how = text + end;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank == stopped && at_message == (how == "message") && passed++ == at ? how : "";
}

[[noreturn]] void stop() {
  constexpr unsigned kLongest = 14;  // seconds, where nobody ends the job: more than others wait
  sleep(kLongest);
  _exit(1);
}

template <class F>
int around(const F& sum) {
  const std::string_view how = how_it_stops(false);
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

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  if (how_it_stops(true) == "message") stop();
  return PMPI_Isend(data, count, type, peer, tag, comm, request);
}
