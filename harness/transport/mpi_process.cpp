// MPI_Init_thread once a process, MPI_Finalize at its end, errors as text.
#include "harness/transport/mpi_process.hpp"

#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "harness/transport/transport.hpp"

namespace zp::transport {
namespace {

bool mpi_runs() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

std::atomic<bool>& given_up() {
  static std::atomic<bool> flag{false};
  return flag;
}

std::atomic<bool>& first_rank_was_silent() {
  static std::atomic<bool> flag{false};
  return flag;
}

}  // namespace

void give_up_mpi(int silent_rank) {
  given_up() = true;
  if (silent_rank == 0) first_rank_was_silent() = true;
}
bool mpi_given_up() { return given_up(); }

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  fail(Exit::transport, std::string(call) + ": " + text.data());
}

void start_mpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  require(finalized == 0 && !given_up(), "MPI is not used after its end");
  if (!mpi_runs()) {
    int level = MPI_THREAD_SINGLE;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
    require(level >= MPI_THREAD_FUNNELED, "MPI allows other threads beside the one that calls it");
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

// The size of the job must be what was asked for; several processes that each form a job of one are a
// mistake.
void check_world(int world) {
  int size = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (size == 1 && launched_world() > 1) {
    fail(Exit::usage,
         "the launcher started " + std::to_string(launched_world()) +
             " processes, but each believes it is alone: start them with the mpirun of the MPI library "
             "that this program was built with (Slurm: srun --mpi=pmix)");
  }
  if (size != world) {
    fail(Exit::usage, "transport mpi: " + std::to_string(world) + " ranks were asked for, but the job has " +
                          std::to_string(size) + " processes: start it with mpirun -n " +
                          std::to_string(world));
  }
}

int first_of_node() {
  int first = 0;
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &first), "MPI_Comm_rank");
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, node), "MPI_Bcast");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  return first;
}

// Open MPI's variable of that name, which it also sets itself where there are more ranks than cores.
bool mpi_yields() {
  int level = 0, index = 0, count = 0, verbosity = 0, binding = 0, scope = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &level) != MPI_SUCCESS) return false;
  bool yields = false;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_cvar_handle handle{};
  if (MPI_T_cvar_get_index("mpi_yield_when_idle", &index) == MPI_SUCCESS &&
      MPI_T_cvar_get_info(index, nullptr, nullptr, &verbosity, &type, nullptr, nullptr, nullptr, &binding,
                          &scope) == MPI_SUCCESS &&
      type == MPI_C_BOOL && MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    if (count != 1 || MPI_T_cvar_read(handle, &yields) != MPI_SUCCESS) yields = false;
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return yields;
}

}  // namespace zp::transport

namespace zp {

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return {};
  const std::string all(text.data(), static_cast<size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

std::optional<bool> mpi_says_gpu_aware() {
  transport::start_mpi();
  int aware = -1;
#if defined(MPIX_CUDA_AWARE_SUPPORT)  // Open MPI
  aware = MPIX_Query_cuda_support();
#elif defined(MPIX_GPU_SUPPORT_CUDA)  // MPICH
  transport::check_mpi(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &aware), "MPIX_GPU_query_support");
#endif
  return aware < 0 ? std::nullopt : std::optional(aware != 0);
}

void end_processes(Exit code, const std::string& unsaid) {
  std::fflush(nullptr);
  const auto say = [unsaid] {
    if (!unsaid.empty()) std::fprintf(stderr, "%s\n", unsaid.c_str());
  };
  if (transport::mpi_given_up()) {
    if (transport::first_rank_was_silent()) say();
    // mpirun ends the job when its first process has ended without MPI. The others, whose deadlines pass at
    // about the same time, must still say why and end with their own code.
    constexpr std::chrono::seconds kAboutTheSameTime(2);
    static volatile std::sig_atomic_t own = 0;
    own = static_cast<int>(code);
    std::signal(SIGTERM, [](int) { _exit(own); });
    std::this_thread::sleep_for(kAboutTheSameTime);
    _exit(own);
  }
  if (transport::mpi_runs()) {
    // mpirun ends the job when its first process has ended with an error; the others still end with their own
    // code.
    if (code != Exit::pass) std::signal(SIGTERM, SIG_IGN);
    // MPI_Finalize waits for every rank; one that hangs must not hold the others.
    const std::chrono::seconds patience(code == Exit::pass ? 60 : 5);
    std::thread([code, patience, say] {
      std::this_thread::sleep_for(patience);
      say();
      _exit(static_cast<int>(code == Exit::pass ? Exit::timeout : code));
    }).detach();
    MPI_Finalize();
  }
  std::exit(static_cast<int>(code));
}

}  // namespace zp
