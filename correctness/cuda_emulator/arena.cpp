// Memory of devices and its protection. See arena.hpp.
#include "correctness/cuda_emulator/arena.hpp"

#include <signal.h>
#include <sys/mman.h>

#include <cstdint>
#include <map>

#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/lock.hpp"
#include "correctness/cuda_emulator/schedule.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::emulated {

namespace {

constexpr std::size_t kUnit = 512;
constexpr std::size_t kReserved = std::size_t{1} << 40;  // of addresses, not of memory
constexpr std::size_t kGrowth = std::size_t{1} << 22;

struct Hole {
  std::size_t bytes;
};

struct Arena {
  unsigned char* begin = nullptr;
  std::size_t opened = 0;  // bytes that were ever used, rounded up: these are protected and opened together
  std::map<unsigned char*, Hole> holes;
  int users = 0;
  bool open = false;
  bool closing = false;  // as soon as nobody uses it
  struct sigaction before = {};
};

constinit Spin lock;

Arena& arena() {
  static constinit Arena* all = nullptr;
  if (all == nullptr) all = new Arena;
  return *all;
}

void protect(unsigned char* from, std::size_t bytes) {
  if (bytes > 0 && mprotect(from, bytes, arena().open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
    fault("memory of devices cannot be protected");
  }
}

// Opening and closing cost as much as a small kernel, so it stays open until a host thread has waited.
void set_open(bool open) {
  if (arena().open == open) return;
  arena().open = open;
  protect(arena().begin, arena().opened);
}

// In a handler: no locks. What does not concern this memory is left to who handled it before.
void on_violation(int, siginfo_t* info, void*) {
  auto* const at = static_cast<unsigned char*>(info->si_addr);
  if (at >= arena().begin && at < arena().begin + kReserved) {
    fault("%s touches memory of a device at %p", in_host_function() ? "a host function" : "the host",
          info->si_addr);
  }
  sigaction(SIGSEGV, &arena().before, nullptr);
}

void reserve() {
  void* const memory =
      mmap(nullptr, kReserved + kGrowth, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fault("no addresses for memory of devices");
  const std::size_t off = reinterpret_cast<std::uintptr_t>(memory) % kGrowth;
  arena().begin = static_cast<unsigned char*>(memory) + (kGrowth - off);
  // Where the system has large pages, protecting few of them costs far less. Where not, nothing changes.
  madvise(arena().begin, kReserved, MADV_HUGEPAGE);
  struct sigaction action = {};
  action.sa_sigaction = on_violation;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &arena().before);
}

void grow(std::size_t bytes) {
  const std::size_t more = (bytes + kGrowth - 1) / kGrowth * kGrowth;
  unsigned char* const from = arena().begin + arena().opened;
  if (arena().opened + more > kReserved) fault("no addresses left for memory of devices");
  arena().opened += more;
  protect(from, more);
  arena().holes[from] = {more};
}

// Joins a hole with the one that follows it.
void join(std::map<unsigned char*, Hole>::iterator hole) {
  const auto next = std::next(hole);
  if (next == arena().holes.end() || hole->first + hole->second.bytes != next->first) return;
  hole->second.bytes += next->second.bytes;
  arena().holes.erase(next);
}

std::size_t counted(std::size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

}  // namespace

void* arena_take(std::size_t bytes) {
  const Held held(lock);
  if (arena().begin == nullptr) reserve();
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (auto hole = arena().holes.begin(); hole != arena().holes.end(); ++hole) {
      const std::size_t rest = hole->second.bytes - counted(bytes);
      if (hole->second.bytes < counted(bytes)) continue;
      unsigned char* const taken = hole->first;
      arena().holes.erase(hole);
      if (rest > 0) arena().holes[taken + counted(bytes)] = {rest};
      return taken;
    }
    grow(counted(bytes));
  }
  fault("no addresses left for memory of devices");
}

void arena_give_back(void* address, std::size_t bytes) {
  const Held held(lock);
  const auto hole = arena().holes.emplace(static_cast<unsigned char*>(address), Hole{counted(bytes)}).first;
  join(hole);
  if (hole != arena().holes.begin()) join(std::prev(hole));
}

DeviceAccess::DeviceAccess() {
  if (!kArena) return;
  const Held held(lock);
  ++arena().users;
  if (!arena().open) arena().closing = false;
  set_open(true);
}

DeviceAccess::~DeviceAccess() {
  if (!kArena) return;
  const Held held(lock);
  if (--arena().users == 0 && arena().closing) set_open(false);
}

void close_arena() {
  if (!kArena || settings().guard == 0) return;
  const Held held(lock);
  arena().closing = true;
  if (arena().users == 0) set_open(false);
}

}  // namespace zp::emulated
