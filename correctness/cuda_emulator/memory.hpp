// What memory there is, on which device and from which pool. New memory and memory given back hold NaN in
// every byte, and an access behind its end is noticed when it is given back (or by the address sanitizer, at
// once).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "correctness/cuda_emulator/lock.hpp"

// What cudaMemPool_t points to. All numbers under the registry's lock.
struct CUmemPoolHandle_st final : zp::emulated::Counted {
  explicit CUmemPoolHandle_st(int device_) : device(device_) {}
  const int device;
  std::uint64_t used = 0, used_high = 0;
  std::uint64_t unreturned = 0;  // freed in stream order, but the stream is not there yet
  std::uint64_t reserved = 0, reserved_high = 0;
  std::uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1};  // attributes that change nothing here
};

namespace zp::emulated {

enum class Home { pageable, pinned, device };

struct Allocation {
  std::size_t bytes = 0;
  Home home = Home::pageable;
  int device = 0;
  cudaMemPool_t pool = nullptr;
  bool leaving = false;  // given back in stream order: nothing new may use it
};

// The allocation that all of [address, address + bytes) lies in. `whole` is false where only a part of it
// does, or it is leaving. Memory that the emulator does not know is pageable.
struct Found {
  Allocation allocation;
  bool whole = true;
};
Found find_memory(const void* address, std::size_t bytes);

// Null where the device has no such amount left. Device memory counts in units of 512 bytes. The caller fills
// it.
void* acquire_memory(std::size_t bytes, Home home, int device, cudaMemPool_t pool);
void poison(void* address, std::size_t bytes);

// Marks it as leaving; false where `address` is no allocation's first byte, or it is leaving already.
// release_memory then checks what lies behind its end and returns it to the system.
bool retire_memory(void* address, Allocation& allocation);
void release_memory(void* address, const char* call);

struct Amounts {
  std::size_t used = 0, peak = 0;
};
Amounts amounts_of(int device);
// What a program is told is free: a pool holds what it reserved.
std::size_t free_bytes(int device);

cudaMemPool_t default_pool(int device);
std::uint64_t* pool_number(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute);
Spin& memory_lock();
void trim_pool(CUmemPoolHandle_st& pool, std::uint64_t keep);  // under the lock
void trim_pools_of(int device);                                // as a synchronisation does

}  // namespace zp::emulated
