// A library to preload into a rank: MPI says that it is GPU-aware. Of the emulated device that is true of any
// MPI, once its memory is not guarded (ZP_EMULATED_CUDA_GUARD=0).
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#if defined(MPIX_CUDA_AWARE_SUPPORT)  // Open MPI
extern "C" int MPIX_Query_cuda_support() { return 1; }
#elif defined(MPIX_GPU_SUPPORT_CUDA)  // MPICH
extern "C" int MPIX_GPU_query_support(int, int* aware) {
  *aware = 1;
  return MPI_SUCCESS;
}
#endif
