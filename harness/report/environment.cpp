// Where a run took place. Everything is read from /proc, the control group's files and the C library.
#include "harness/report/environment.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>

#ifndef ZP_VERSION
#error "the build sets ZP_VERSION"
#endif

namespace zp {

namespace {

// Nothing else of the environment is ever recorded: it may hold secrets.
constexpr std::array kRecorded{
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_MCA_btl",
    "OMPI_MCA_pml",
    "OMPI_MCA_hwloc_base_binding_policy",
    "OMPI_MCA_mpi_yield_when_idle",
    "OMPI_MCA_rmaps_base_oversubscribe",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_COLLNET_ENABLE",
    "NCCL_CROSS_NIC",
    "NCCL_CUMEM_ENABLE",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MNNVL_ENABLE",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TUNER_PLUGIN",
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_MPI_TYPE",
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The first integer after `key` in `text`; -1 where there is none.
int64_t number_after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return -1;
  text.remove_prefix(at + key.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t:"), text.size()));
  int64_t number = -1;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc() ? number : -1;
}

// What the control group's limit leaves, file pages that can be dropped included; no limit: the largest
// number.
Bytes group_memory_left() {
  constexpr Bytes kUnlimited{std::numeric_limits<int64_t>::max()};
  const int64_t limit = number_after(text_of("/sys/fs/cgroup/memory.max"), "");
  const int64_t used = number_after(text_of("/sys/fs/cgroup/memory.current"), "");
  if (limit < 0 || used < 0) return kUnlimited;
  const int64_t droppable = number_after(text_of("/sys/fs/cgroup/memory.stat"), "inactive_file ");
  return {std::max<int64_t>(0, limit - used + std::max<int64_t>(0, droppable))};
}

// Cores of the control group's quota, rounded up; no quota: the largest number.
int group_cores() {
  double quota = 0, period = 0;
  std::istringstream text(text_of("/sys/fs/cgroup/cpu.max"));
  if (!(text >> quota >> period) || period <= 0) return std::numeric_limits<int>::max();
  return static_cast<int>(std::ceil(quota / period));
}

int bound_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return std::numeric_limits<int>::max();
  return CPU_COUNT(&set);
}

int host_cores() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string compiler_name() {
#if defined(__clang__)
  return std::string("clang ") + __clang_version__;
#else
  return std::string("g++ ") + __VERSION__;
#endif
}

}  // namespace

std::string_view version() { return ZP_VERSION; }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

int usable_cores() { return std::max(1, std::min({host_cores(), bound_cores(), group_cores()})); }

int default_threads(int local_ranks) {
  const int share = std::min(host_cores(), group_cores()) / std::max(1, local_ranks);
  return std::max(1, std::min(share, bound_cores()));
}

int local_ranks(int world) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    const char* text = std::getenv(name);
    const int64_t ranks = text ? number_after(text, "") : -1;
    if (ranks > 0) return static_cast<int>(std::min<int64_t>(ranks, world));
  }
  return world;
}

Bytes parse_available(std::string_view meminfo) {
  return {std::max<int64_t>(0, number_after(meminfo, "MemAvailable:")) * 1024};
}

Bytes available_memory() { return std::min(parse_available(text_of("/proc/meminfo")), group_memory_left()); }

void describe_host(RunSettings& settings) {
  utsname system{};
  uname(&system);
  settings.version = version();
  settings.host = system.nodename;
  settings.os = std::string(system.sysname) + " " + system.release + " " + system.machine;
  settings.cpu = cpu_name();
  settings.compiler = compiler_name();
  settings.cores = usable_cores();
  settings.memory_available = available_memory();
  settings.start_time = utc_now();
  for (const char* name : kRecorded) {
    if (const char* value = std::getenv(name)) settings.env[name] = value;
  }
}

}  // namespace zp
