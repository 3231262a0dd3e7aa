// Between a .cu file compiled as C++ and the runtime: a kernel with its arguments, and what CUDA threads may
// ask for while they run. The runtime is compiled without the thread sanitizer, kernels with it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace zp::emulated {

// Where in the source a thread waits.
struct Site {
  const char* file = __builtin_FILE();
  int line = __builtin_LINE();
};

// A kernel and a copy of its arguments, made when it is launched.
class KernelCall {
 public:
  KernelCall() = default;
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;
  virtual ~KernelCall() = default;
  virtual void run_thread() const = 0;  // of one CUDA thread, whose indices are set
};

// Takes the call over. `kernel` identifies it; `text` names it in what is said of it and lives as long as the
// program.
cudaError_t launch(const cudaLaunchConfig_t* config, const char* text, const void* kernel, KernelCall* call);

// What the threads of a block meet for.
int meet_block(Site site, bool predicate);                               // how many gave true
void meet_warp(std::uint32_t mask, Site site);                           // orders memory
std::uint32_t vote_warp(std::uint32_t mask, bool predicate, Site site);  // a bit for each lane
std::uint64_t exchange_warp(std::uint32_t mask, std::uint64_t value, unsigned source_lane, Site site);
unsigned lane();

// Asynchronous copies of the running thread: those of a committed group arrive in wait_copies().
void copy_later(void* shared, const void* global, std::size_t bytes, std::size_t zero_bytes);
void commit_copies();
void wait_copies(std::size_t groups_left, Site site);

void fence();
[[noreturn]] void trap(Site site);

// Dynamic shared memory of a block is as large as the smallest of the devices built for allows (sm_80: 163
// KiB).
constexpr std::size_t kMostDynamicShared = 163 * 1024;

}  // namespace zp::emulated
