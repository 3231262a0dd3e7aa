// The registry of memory. See memory.hpp.
#include "correctness/cuda_emulator/memory.hpp"

#include <cstdlib>
#include <cstring>
#include <map>

#include "correctness/cuda_emulator/arena.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/handles.hpp"
#include "correctness/cuda_emulator/sanitized.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::emulated {

namespace {

constexpr int kMostDevices = 64;
constexpr std::size_t kUnit = 512;              // what device memory is counted in, and aligned to
constexpr std::uint64_t kPoolUnit = 2U << 20U;  // what a pool takes from the device at once
constexpr unsigned char kGuardByte = 0xa5;
#if ZP_ADDRESS_SANITIZER
constexpr std::size_t kGuard = 0;  // the sanitizer's own
#else
constexpr std::size_t kGuard = 64;
#endif

struct State {
  std::map<std::uintptr_t, Allocation> allocations;
  Amounts amounts[kMostDevices];
};

constinit Spin lock;
constinit Spin default_pools_lock;  // taken before the lock of handles, which is taken before the other one

State& state() {
  static constinit State* all = nullptr;
  if (all == nullptr) all = new State;
  return *all;
}

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }
std::size_t counted(std::size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

void count_in(CUmemPoolHandle_st& pool, std::size_t bytes) {
  pool.used += bytes;
  pool.used_high = std::max(pool.used_high, pool.used);
  const std::uint64_t needed = (pool.used + pool.unreturned + kPoolUnit - 1) / kPoolUnit * kPoolUnit;
  pool.reserved = std::max(pool.reserved, needed);
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
}

}  // namespace

Spin& memory_lock() { return lock; }

Found find_memory(const void* address, std::size_t bytes) {
  const Held held(lock);
  auto& allocations = state().allocations;
  auto at = allocations.upper_bound(number(address));
  Found found;
  if (at != allocations.begin()) {
    const auto before = std::prev(at);
    const std::uintptr_t end = before->first + before->second.bytes;
    if (number(address) < end || (bytes == 0 && number(address) == before->first)) {
      found.allocation = before->second;
      found.whole = number(address) + bytes <= end && !before->second.leaving;
      return found;
    }
  }
  // Unknown memory that runs into known memory.
  found.whole = at == allocations.end() || number(address) + bytes <= at->first;
  return found;
}

void poison(void* address, std::size_t bytes) { std::memset(address, 0xff, bytes); }

namespace {

void* take(std::size_t bytes, Home home) {
  if (kArena && home == Home::device) return arena_take(bytes);
  void* address = nullptr;
  if (posix_memalign(&address, kUnit, bytes) != 0) fault("the host has no %zu bytes left", bytes);
  return address;
}

void give_back(void* address, const Allocation& allocation) {
  if (kArena && allocation.home == Home::device) return arena_give_back(address, allocation.bytes + kGuard);
  std::free(address);
}

}  // namespace

void* acquire_memory(std::size_t bytes, Home home, int device, cudaMemPool_t pool) {
  const Held held(lock);
  Amounts& amounts = state().amounts[device];
  if (home == Home::device) {
    if (bytes > settings().memory_bytes || amounts.used + counted(bytes) > settings().memory_bytes)
      return nullptr;
    amounts.used += counted(bytes);
    amounts.peak = std::max(amounts.peak, amounts.used);
  }
  if (pool != nullptr) {
    pool->retain();
    count_in(*pool, counted(bytes));
  }
  void* const address = take(bytes + kGuard, home);
  const DeviceAccess access;
  std::memset(static_cast<char*>(address) + bytes, kGuardByte, kGuard);
  state().allocations[number(address)] = {bytes, home, device, pool, false};
  return address;
}

bool retire_memory(void* address, Allocation& allocation) {
  const Held held(lock);
  const auto at = state().allocations.find(number(address));
  if (at == state().allocations.end() || at->second.leaving) return false;
  at->second.leaving = true;
  allocation = at->second;
  if (allocation.home == Home::device) state().amounts[allocation.device].used -= counted(allocation.bytes);
  if (allocation.pool != nullptr) {
    allocation.pool->used -= counted(allocation.bytes);
    allocation.pool->unreturned += counted(allocation.bytes);
  }
  return true;
}

void release_memory(void* address, const char* call) {
  Allocation allocation;
  {
    const Held held(lock);
    const auto at = state().allocations.find(number(address));
    allocation = at->second;
    state().allocations.erase(at);
    if (allocation.pool != nullptr) {
      allocation.pool->unreturned -= counted(allocation.bytes);
      allocation.pool->release();
    }
  }
  const DeviceAccess access;
  const auto* const behind = static_cast<const unsigned char*>(address) + allocation.bytes;
  for (std::size_t i = 0; i < kGuard; ++i) {
    if (behind[i] != kGuardByte) {
      fault("%s: byte %zu of an allocation of %zu bytes was written", call, allocation.bytes + i,
            allocation.bytes);
    }
  }
  poison(address, allocation.bytes);
  give_back(address, allocation);
}

Amounts amounts_of(int device) {
  const Held held(lock);
  return state().amounts[device];
}

std::size_t peak_bytes(int device) { return amounts_of(device).peak; }

// ---- Pools

cudaMemPool_t default_pool(int device) {
  static constinit cudaMemPool_t pools[kMostDevices] = {};
  const Held held(default_pools_lock);
  cudaMemPool_t& pool = pools[device];
  if (pool == nullptr) pool = handles<CUmemPoolHandle_st>().add(new CUmemPoolHandle_st(device));
  return pool;
}

std::size_t free_bytes(int device) {
  std::uint64_t pooled = 0, reserved = 0;
  handles<CUmemPoolHandle_st>().each([&](CUmemPoolHandle_st* pool) {
    const Held held(lock);
    if (pool->device != device) return;
    pooled += pool->used;
    reserved += pool->reserved;
  });
  const std::uint64_t taken = amounts_of(device).used - pooled + reserved;
  return taken < settings().memory_bytes ? settings().memory_bytes - taken : 0;
}

// The numbers that a program may read; those of reuse are ints and stand apart.
std::uint64_t* pool_number(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold: return &pool.release_threshold;
    case cudaMemPoolAttrReservedMemCurrent: return &pool.reserved;
    case cudaMemPoolAttrReservedMemHigh: return &pool.reserved_high;
    case cudaMemPoolAttrUsedMemCurrent: return &pool.used;
    case cudaMemPoolAttrUsedMemHigh: return &pool.used_high;
    default: return nullptr;
  }
}

void trim_pool(CUmemPoolHandle_st& pool, std::uint64_t keep) {
  const std::uint64_t needed = (pool.used + pool.unreturned + kPoolUnit - 1) / kPoolUnit * kPoolUnit;
  pool.reserved = std::min(pool.reserved, std::max(needed, keep));
}

void trim_pools_of(int device) {
  handles<CUmemPoolHandle_st>().each([&](CUmemPoolHandle_st* pool) {
    const Held held(lock);
    if (pool->device == device) trim_pool(*pool, pool->release_threshold);
  });
}

}  // namespace zp::emulated
