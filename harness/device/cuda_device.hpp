// One GPU: its memory, from one pool of its own, and streams whose marks are events. All calls of CUDA that
// kernels do not make themselves. Each rank has a device of its own, and uses it on one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/device/device_limits.hpp"
#include "harness/device/device_memory.hpp"

namespace zp {

class CudaStream : public Stream {
 public:
  virtual cudaStream_t handle() const = 0;
  // Returns when everything is over that was put on it.
  virtual void finish() = 0;
};

class CudaDevice : public Device {
 public:
  virtual std::unique_ptr<CudaStream> make_stream() = 0;
  // What CUDA says of the pool and of the GPU, once everything that was given back is.
  virtual DeviceMemory memory() = 0;
  // The most in use begins anew, from what is in use now.
  virtual void begin_peak() = 0;
  // Watches waits of the host for its streams from now on; null: nobody does.
  virtual void set_lookout(Lookout* lookout) = 0;
  // What its streams still do has no results: the host's waits for them, which must end soon, throw `reason`.
  virtual void spoil(const Error& reason) = 0;
};

// GPU number `index` of this host becomes the calling thread's. `fill` as a host device's. It throws (cuda)
// for calls that fail, (unavailable) for memory that is not there, on a GPU or pinned, and for a GPU that
// another process holds alone, and (timeout) where the host waits for its streams and in about `timeout_s`
// nothing that was put there ends; its memory and streams are then left as they are.
std::unique_ptr<CudaDevice> make_cuda_device(int index, Fill fill, double timeout_s = 60.0);

struct CudaGpu {
  int index = 0;
  std::string name, pci, uuid;
  Bytes memory;
  int major = 0, minor = 0;  // compute capability
  DeviceLimits limits = {};
  std::vector<PeerAccess> peers = {};  // from it to every GPU, by number
};

struct CudaHere {
  int driver = 0, runtime = 0;  // as CUDA numbers them: 1000·major + 10·minor
  std::vector<CudaGpu> gpus;
};

// Throws (unavailable), with CUDA's own words, where no GPU can be used, and where the driver or one of the
// GPUs is too old for the kernels.
CudaHere find_gpus();

}  // namespace zp
