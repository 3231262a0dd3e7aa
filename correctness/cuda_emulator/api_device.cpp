// Entry points: devices and versions. Signatures are NVIDIA's, since their header declares them.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "correctness/cuda_emulator/enqueue.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/kernel.hpp"
#include "correctness/cuda_emulator/memory.hpp"

namespace zp::emulated {

namespace {

constexpr std::size_t kUsualShared = 48 * 1024;
constexpr int kProcessors = 4;

constinit thread_local int device_of_this_thread = 0;

cudaError_t check_device(int device, const char* call) {
  if (device >= 0 && device < settings().devices) return cudaSuccess;
  return refuse(cudaErrorInvalidDevice, "%s: device %d of %d", call, device, settings().devices);
}

}  // namespace

int current_device() { return device_of_this_thread; }

}  // namespace zp::emulated

using namespace zp::emulated;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().devices;
  return *count > 0 ? cudaSuccess : failed(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  const cudaError_t code = check_device(device, "cudaSetDevice");
  if (code == cudaSuccess) device_of_this_thread = device;
  return code;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

// The smallest of the devices that kernels are built for, sm_80, as far as its limits go.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const cudaError_t code = check_device(device, "cudaGetDeviceProperties");
  if (code != cudaSuccess) return code;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated CUDA device");
  properties->totalGlobalMem = settings().memory_bytes;
  properties->sharedMemPerBlock = kUsualShared;
  properties->sharedMemPerBlockOptin = kMostDynamicShared;
  properties->sharedMemPerMultiprocessor = kMostDynamicShared + 1024;
  properties->regsPerBlock = 65536;
  properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->major = settings().capability / 10;
  properties->minor = settings().capability % 10;
  properties->multiProcessorCount = kProcessors;
  properties->pciBusID = device + 1;
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  properties->asyncEngineCount = 2;
  properties->concurrentKernels = 1;
  properties->unifiedAddressing = 1;
  properties->memoryPoolsSupported = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const cudaError_t code = check_device(device, "cudaDeviceGetAttribute");
  if (code != cudaSuccess) return code;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = kProcessors; return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; return cudaSuccess;
    case cudaDevAttrWarpSize: *value = 32; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(kUsualShared); return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(kMostDynamicShared);
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = settings().capability / 10; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = settings().capability % 10; return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; return cudaSuccess;
    // It has none of them.
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
    case cudaDevAttrGlobalMemoryBusWidth:
    case cudaDevAttrL2CacheSize: *value = 0; return cudaSuccess;
    default:
      return refuse(cudaErrorNotSupported, "cudaDeviceGetAttribute: attribute %d",
                    static_cast<int>(attribute));
  }
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const cudaError_t code = check_device(device, "cudaDeviceGetPCIBusId");
  if (code != cudaSuccess) return code;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device) + 1);
  return cudaSuccess;
}

// No device reaches another's memory by itself.
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
  for (const int device : {from, to}) {
    const cudaError_t code = check_device(device, "cudaDeviceGetP2PAttribute");
    if (code != cudaSuccess) return code;
  }
  if (from == to)
    return refuse(cudaErrorInvalidDevice, "cudaDeviceGetP2PAttribute: device %d and itself", from);
  if (attribute != cudaDevP2PAttrAccessSupported && attribute != cudaDevP2PAttrPerformanceRank) {
    return refuse(cudaErrorNotSupported, "cudaDeviceGetP2PAttribute: attribute %d",
                  static_cast<int>(attribute));
  }
  *value = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const cudaError_t code = allowed_here("cudaDeviceSynchronize");
  if (code != cudaSuccess) return code;
  wait_for_device(current_device(), Ordered::yes, "cudaDeviceSynchronize");
  trim_pools_of(current_device());
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = settings().memory_bytes;
  *free = free_bytes(current_device());
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = settings().driver != 0 ? settings().driver : CUDART_VERSION;
  return cudaSuccess;
}

}  // extern "C"
