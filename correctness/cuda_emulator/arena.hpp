// Where memory of devices lies: in pages that cannot be touched from the end of a host thread's wait until a
// stream runs something, so that a host which follows a pointer to a device's memory is caught. Under the
// address and thread sanitizers memory comes from malloc, which they watch, and nothing is caught.
#pragma once

#include <cstddef>

#include "correctness/cuda_emulator/edges.hpp"
#include "correctness/cuda_emulator/sanitized.hpp"

namespace zp::emulated {

constexpr bool kArena = !kEdges && ZP_ADDRESS_SANITIZER == 0;

// Aligned to 512 bytes. What was given back keeps what it holds until it is taken again.
void* arena_take(std::size_t bytes);
void arena_give_back(void* address, std::size_t bytes);

// While one lives, memory of devices can be touched, by whatever thread.
class DeviceAccess {
 public:
  DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
  ~DeviceAccess();
};

// Nobody is to touch it until the next access: now, or when those under way have ended.
void close_arena();

}  // namespace zp::emulated
