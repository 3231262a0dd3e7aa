// Entry points: copying and setting memory. Ranges and directions are checked against the registry of memory.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "correctness/cuda_emulator/arena.hpp"
#include "correctness/cuda_emulator/enqueue.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/memory.hpp"

namespace zp::emulated {

namespace {

struct Copied {
  void* to;
  const void* from;
  std::size_t bytes;
};

class Copy final : public Operation {
 public:
  // `staged` is freed afterwards, where it is not null.
  Copy(const char* name, Copied copied, void* staged) : Operation(name), copied_(copied), staged_(staged) {}
  ~Copy() override { std::free(staged_); }

  bool step() override {
    const std::size_t bytes = std::min<std::size_t>(part_of(copied_.bytes), copied_.bytes - done_);
    std::memcpy(static_cast<char*>(copied_.to) + done_, static_cast<const char*>(copied_.from) + done_,
                bytes);
    done_ += bytes;
    return done_ == copied_.bytes;
  }

 private:
  Copied copied_;
  void* staged_;
  std::size_t done_ = 0;
};

class Set final : public Operation {
 public:
  Set(void* address, int value, std::size_t bytes)
      : Operation("cudaMemsetAsync"), address_(static_cast<char*>(address)), value_(value), bytes_(bytes) {}

  bool step() override {
    const std::size_t bytes = std::min<std::size_t>(part_of(bytes_), bytes_ - done_);
    std::memset(address_ + done_, value_, bytes);
    done_ += bytes;
    return done_ == bytes_;
  }

 private:
  char* address_;
  int value_;
  std::size_t bytes_;
  std::size_t done_ = 0;
};

struct Homes {
  Home to = Home::pageable;
  Home from = Home::pageable;
};

bool direction_holds(const Homes& homes, cudaMemcpyKind kind) {
  const bool to_device = homes.to == Home::device;
  const bool from_device = homes.from == Home::device;
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

cudaError_t check_range(const Found& found, const void* address, std::size_t bytes, const char* call,
                        const char* end) {
  if (found.whole) return cudaSuccess;
  return refuse(cudaErrorInvalidValue,
                "%s: %zu bytes %s %p reach out of the allocation, or it was given back", call, bytes, end,
                address);
}

cudaError_t check_copy(const Copied& copied, cudaMemcpyKind kind, const char* call, Homes& homes) {
  cudaError_t code = allowed_here(call);
  if (code != cudaSuccess) return code;
  const Found to = find_memory(copied.to, copied.bytes);
  const Found from = find_memory(copied.from, copied.bytes);
  code = check_range(to, copied.to, copied.bytes, call, "to");
  if (code == cudaSuccess) code = check_range(from, copied.from, copied.bytes, call, "from");
  if (code != cudaSuccess) return code;
  homes = {to.allocation.home, from.allocation.home};
  if (direction_holds(homes, kind)) return cudaSuccess;
  return refuse(cudaErrorInvalidValue, "%s: %p to %p is no copy of kind %d", call, copied.from, copied.to,
                static_cast<int>(kind));
}

// Pageable memory: it is taken before this returns, and filled; that it is filled CUDA does not promise, so
// nothing is ordered by it.
cudaError_t copy_in_stream(const Copied& copied, cudaMemcpyKind kind, cudaStream_t handle, const char* call) {
  Homes homes;
  const cudaError_t code = check_copy(copied, kind, call, homes);
  if (code != cudaSuccess) return code;
  const Shared<Stream> stream = alive(handle, call);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (copied.bytes == 0) return cudaSuccess;
  Copied wanted = copied;
  void* staged = nullptr;
  if (homes.from == Home::pageable) {
    staged = std::malloc(copied.bytes);
    if (staged == nullptr) fault("%s: the host has no %zu bytes left", call, copied.bytes);
    std::memcpy(staged, copied.from, copied.bytes);
    wanted.from = staged;
  }
  const cudaError_t enqueued = enqueue(handle, new Copy(call, wanted, staged));
  if (enqueued == cudaSuccess && homes.to == Home::pageable)
    wait_for_stream(*stream.get(), Ordered::no, call);
  return enqueued;
}

cudaError_t check_set(void* address, std::size_t bytes, const char* call) {
  const cudaError_t code = allowed_here(call);
  if (code != cudaSuccess) return code;
  const Found found = find_memory(address, bytes);
  if (found.allocation.home == Home::pageable && bytes > 0) {
    return refuse(cudaErrorInvalidValue, "%s: %p is no memory of a device", call, address);
  }
  return check_range(found, address, bytes, call, "at");
}

// Calls without a stream wait for those of the device's streams that are not created as non-blocking.
void wait_for_blocking_streams(const char* call) {
  for (const Shared<Stream>& stream : streams_of(current_device())) {
    if (stream->blocking()) wait_for_stream(*stream.get(), Ordered::yes, call);
  }
}

}  // namespace

}  // namespace zp::emulated

using namespace zp::emulated;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_in_stream({to, from, bytes}, kind, stream, "cudaMemcpyAsync");
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  if (bytes > 0 && (find_memory(to, 1).allocation.device != to_device ||
                    find_memory(from, 1).allocation.device != from_device)) {
    return refuse(cudaErrorInvalidValue, "cudaMemcpyPeerAsync: memory of another device than the one named");
  }
  return copy_in_stream({to, from, bytes}, cudaMemcpyDeviceToDevice, stream, "cudaMemcpyPeerAsync");
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  Homes homes;
  const cudaError_t code = check_copy({to, from, bytes}, kind, "cudaMemcpy", homes);
  if (code != cudaSuccess || bytes == 0) return code;
  wait_for_blocking_streams("cudaMemcpy");
  {
    const DeviceAccess access;
    std::memcpy(to, from, bytes);
  }
  close_arena();
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream) {
  const cudaError_t code = check_set(address, bytes, "cudaMemsetAsync");
  if (code != cudaSuccess) return code;
  if (bytes == 0) return alive(stream, "cudaMemsetAsync") ? cudaSuccess : cudaErrorInvalidResourceHandle;
  return enqueue(stream, new Set(address, value, bytes));
}

cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  const cudaError_t code = check_set(address, bytes, "cudaMemset");
  if (code != cudaSuccess || bytes == 0) return code;
  wait_for_blocking_streams("cudaMemset");
  const DeviceAccess access;
  std::memset(address, value, bytes);
  return cudaSuccess;
}

}  // extern "C"
