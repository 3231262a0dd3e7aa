// A library to preload into a rank: MPI says that it is GPU-aware. Of the emulated device that is true of any
// MPI, once its memory is not guarded (ZP_EMULATED_CUDA_GUARD=0). Where ZP_AWARE_LIE says how, it is a lie
// about the long messages of odd length that it is tried with: it garbles, refuses or swallows those of
// rank 1.
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <cstdlib>
#include <string_view>
#include <vector>

#if defined(MPIX_CUDA_AWARE_SUPPORT)  // Open MPI
extern "C" int MPIX_Query_cuda_support() { return 1; }
#elif defined(MPIX_GPU_SUPPORT_CUDA)  // MPICH
extern "C" int MPIX_GPU_query_support(int, int* aware) {
  *aware = 1;
  return MPI_SUCCESS;
}
#endif

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  constexpr int kLong = 200'000;
  static std::vector<char> garbled;  // one such message at a time
  const char* set = std::getenv("ZP_AWARE_LIE");
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  const bool tried = count > kLong && count % 2 == 1 && rank == 1;
  const std::string_view lie = set == nullptr || !tried ? "" : set;
  if (lie == "refuses") return MPI_ERR_BUFFER;
  if (lie == "swallows") peer = MPI_PROC_NULL;
  if (lie == "garbles") {
    garbled.assign(static_cast<const char*>(data), static_cast<const char*>(data) + count);
    garbled[7] ^= 1;
    data = garbled.data();
  }
  return PMPI_Isend(data, count, type, peer, tag, comm, request);
}
