// Entry points: memory of devices and hosts, at once or in stream order, and pools.
#include <cuda_runtime_api.h>

#include "correctness/cuda_emulator/arena.hpp"
#include "correctness/cuda_emulator/enqueue.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/handles.hpp"
#include "correctness/cuda_emulator/memory.hpp"
#include "correctness/cuda_emulator/waits.hpp"

namespace zp::emulated {

namespace {

constexpr int kMostDevices = 64;

class Appear final : public Operation {
 public:
  Appear(void* address, std::size_t bytes) : Operation("cudaMallocAsync"), address_(address), bytes_(bytes) {}
  bool step() override {
    poison(address_, bytes_);
    return true;
  }

 private:
  void* address_;
  std::size_t bytes_;
};

class Disappear final : public Operation {
 public:
  explicit Disappear(void* address) : Operation("cudaFreeAsync"), address_(address) {}
  bool step() override {
    release_memory(address_, name());
    return true;
  }

 private:
  void* address_;
};

// Without a word where there is no memory left: a right program may meet that.
cudaError_t acquire(void** address, std::size_t bytes, Home home, const char* call) {
  const cudaError_t code = allowed_here(call);
  if (code != cudaSuccess) return code;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = acquire_memory(bytes, home, current_device(), nullptr);
  if (*address == nullptr) return failed(cudaErrorMemoryAllocation);
  {
    const DeviceAccess access;
    poison(*address, bytes);
  }
  close_arena();
  return cudaSuccess;
}

// CUDA waits for the device here, but promises no order: memory that is still in use is reported by the
// thread sanitizer, since no edge leads from its users to what follows.
cudaError_t give_back(void* address, Home home, const char* call) {
  if (address == nullptr) return cudaSuccess;
  cudaError_t code = allowed_here(call);
  if (code != cudaSuccess) return code;
  const Found found = find_memory(address, 1);
  if (found.allocation.home != home) {
    return refuse(cudaErrorInvalidValue, "%s: %p is no memory of this kind", call, address);
  }
  host_touches_memory();
  wait_for_device(found.allocation.device, Ordered::no, call);
  Allocation allocation;
  if (!retire_memory(address, allocation)) {
    return refuse(cudaErrorInvalidValue, "%s: %p is not where an allocation begins", call, address);
  }
  release_memory(address, call);
  return cudaSuccess;
}

Spin current_pools_lock;
cudaMemPool_t current_pools[kMostDevices] = {};

cudaError_t from_pool(void** address, std::size_t bytes, CUmemPoolHandle_st* pool, cudaStream_t stream) {
  const char* const call = "cudaMallocAsync";
  cudaError_t code = allowed_here(call);
  if (code != cudaSuccess) return code;
  if (!alive(stream, call)) return cudaErrorInvalidResourceHandle;
  *address = nullptr;
  if (bytes == 0) return refuse(cudaErrorInvalidValue, "%s: no bytes", call);
  *address = acquire_memory(bytes, Home::device, pool->device, pool);
  if (*address == nullptr) return failed(cudaErrorMemoryAllocation);
  return enqueue(stream, new Appear(*address, bytes));
}

bool is_reuse(cudaMemPoolAttr attribute) {
  return attribute >= cudaMemPoolReuseFollowEventDependencies &&
         attribute <= cudaMemPoolReuseAllowInternalDependencies;
}

Shared<CUmemPoolHandle_st> alive_pool(cudaMemPool_t pool, const char* call) {
  Shared<CUmemPoolHandle_st> found = handles<CUmemPoolHandle_st>().find(pool);
  if (!found) refuse(cudaErrorInvalidValue, "%s: a pool that does not exist or was destroyed", call);
  return found;
}

cudaError_t check_device(int device, const char* call) {
  if (device >= 0 && device < settings().devices) return cudaSuccess;
  return refuse(cudaErrorInvalidDevice, "%s: device %d of %d", call, device, settings().devices);
}

}  // namespace

}  // namespace zp::emulated

using namespace zp::emulated;

extern "C" {

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return acquire(address, bytes, Home::device, "cudaMalloc");
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return acquire(address, bytes, Home::pinned, "cudaMallocHost");
}

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  if ((flags & ~unsigned{cudaHostAllocPortable}) != 0) {
    return refuse(cudaErrorNotSupported, "cudaHostAlloc: flags %u", flags);
  }
  return acquire(address, bytes, Home::pinned, "cudaHostAlloc");
}

cudaError_t cudaFree(void* address) { return give_back(address, Home::device, "cudaFree"); }
cudaError_t cudaFreeHost(void* address) { return give_back(address, Home::pinned, "cudaFreeHost"); }

cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t stream) {
  const Shared<Stream> on = alive(stream, "cudaMallocAsync");
  if (!on) return cudaErrorInvalidResourceHandle;
  cudaMemPool_t pool = nullptr;
  cudaDeviceGetMemPool(&pool, on->device());
  return from_pool(address, bytes, pool, stream);
}

cudaError_t cudaMallocFromPoolAsync(void** address, std::size_t bytes, cudaMemPool_t handle,
                                    cudaStream_t stream) {
  const Shared<CUmemPoolHandle_st> pool = alive_pool(handle, "cudaMallocFromPoolAsync");
  return pool ? from_pool(address, bytes, pool.get(), stream) : cudaErrorInvalidValue;
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  const char* const call = "cudaFreeAsync";
  const cudaError_t code = allowed_here(call);
  if (code != cudaSuccess) return code;
  if (!alive(stream, call)) return cudaErrorInvalidResourceHandle;
  const Found found = find_memory(address, 1);
  Allocation allocation;
  if (found.allocation.pool == nullptr || !retire_memory(address, allocation)) {
    return refuse(cudaErrorInvalidValue, "%s: %p is not where memory of a pool begins", call, address);
  }
  return enqueue(stream, new Disappear(address));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  const cudaError_t code = check_device(device, "cudaDeviceGetDefaultMemPool");
  if (code == cudaSuccess) *pool = default_pool(device);
  return code;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  const cudaError_t code = check_device(device, "cudaDeviceGetMemPool");
  if (code != cudaSuccess) return code;
  {
    const Held held(current_pools_lock);
    *pool = current_pools[device];
  }
  if (*pool == nullptr) *pool = default_pool(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t handle) {
  const cudaError_t code = check_device(device, "cudaDeviceSetMemPool");
  if (code != cudaSuccess) return code;
  const Shared<CUmemPoolHandle_st> pool = alive_pool(handle, "cudaDeviceSetMemPool");
  if (!pool) return cudaErrorInvalidValue;
  if (pool->device != device) {
    return refuse(cudaErrorInvalidValue, "cudaDeviceSetMemPool: a pool of device %d for device %d",
                  pool->device, device);
  }
  const Held held(current_pools_lock);
  current_pools[device] = handle;
  return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (properties->allocType != cudaMemAllocationTypePinned ||
      properties->location.type != cudaMemLocationTypeDevice ||
      properties->handleTypes != cudaMemHandleTypeNone) {
    return refuse(cudaErrorInvalidValue,
                  "cudaMemPoolCreate: only memory of a device, for this process alone");
  }
  const cudaError_t code = check_device(properties->location.id, "cudaMemPoolCreate");
  if (code != cudaSuccess) return code;
  *pool = handles<CUmemPoolHandle_st>().add(new CUmemPoolHandle_st(properties->location.id));
  return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  const Shared<CUmemPoolHandle_st> pool = alive_pool(handle, "cudaMemPoolDestroy");
  if (!pool) return cudaErrorInvalidValue;
  if (handle == default_pool(pool->device)) {
    return refuse(cudaErrorInvalidValue, "cudaMemPoolDestroy: a device's default pool stays");
  }
  {
    const Held held(current_pools_lock);
    if (current_pools[pool->device] == handle) current_pools[pool->device] = nullptr;
  }
  handles<CUmemPoolHandle_st>().take(handle);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  const Shared<CUmemPoolHandle_st> pool = alive_pool(handle, "cudaMemPoolGetAttribute");
  if (!pool) return cudaErrorInvalidValue;
  const Held held(memory_lock());
  if (is_reuse(attribute)) {
    *static_cast<int*>(value) = pool->reuse[attribute - cudaMemPoolReuseFollowEventDependencies];
    return cudaSuccess;
  }
  const std::uint64_t* const number = pool_number(*pool.get(), attribute);
  if (number == nullptr)
    return refuse(cudaErrorInvalidValue, "cudaMemPoolGetAttribute: attribute %d", attribute);
  *static_cast<std::uint64_t*>(value) = *number;
  return cudaSuccess;
}

// High watermarks can only be set to zero: they begin anew from what is in use.
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  const Shared<CUmemPoolHandle_st> pool = alive_pool(handle, "cudaMemPoolSetAttribute");
  if (!pool) return cudaErrorInvalidValue;
  const Held held(memory_lock());
  if (is_reuse(attribute)) {
    pool->reuse[attribute - cudaMemPoolReuseFollowEventDependencies] = *static_cast<int*>(value);
    return cudaSuccess;
  }
  const std::uint64_t wanted = *static_cast<std::uint64_t*>(value);
  if (attribute == cudaMemPoolAttrReleaseThreshold) {
    pool->release_threshold = wanted;
  } else if (attribute == cudaMemPoolAttrUsedMemHigh && wanted == 0) {
    pool->used_high = pool->used;
  } else if (attribute == cudaMemPoolAttrReservedMemHigh && wanted == 0) {
    pool->reserved_high = pool->reserved;
  } else {
    return refuse(cudaErrorInvalidValue, "cudaMemPoolSetAttribute: attribute %d cannot be set to this",
                  attribute);
  }
  return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, std::size_t bytes) {
  const Shared<CUmemPoolHandle_st> pool = alive_pool(handle, "cudaMemPoolTrimTo");
  if (!pool) return cudaErrorInvalidValue;
  const Held held(memory_lock());
  trim_pool(*pool.get(), bytes);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const Found found = find_memory(address, 1);
  *attributes = {};
  attributes->device = found.allocation.device;
  switch (found.allocation.home) {
    case Home::pageable:
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = -1;
      attributes->hostPointer = const_cast<void*>(address);
      break;
    case Home::pinned:
      attributes->type = cudaMemoryTypeHost;
      attributes->hostPointer = attributes->devicePointer = const_cast<void*>(address);
      break;
    case Home::device:
      attributes->type = cudaMemoryTypeDevice;
      attributes->devicePointer = const_cast<void*>(address);
      break;
  }
  return cudaSuccess;
}

}  // extern "C"
