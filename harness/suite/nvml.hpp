// What NVIDIA's management library says of a GPU that CUDA does not: NVLink and power. Opened where the
// driver has brought it; nothing is linked to it.
#pragma once

#include <optional>
#include <string>

#include "harness/base/shared_library.hpp"

namespace zp {

struct NvmlFacts {
  std::optional<int> nvlinks;         // active
  std::optional<int> nvlink_version;  // of the first active one
  std::optional<double> power_limit_w;
};

class Nvml {
 public:
  // Where it cannot be opened, or does not start, it says nothing of any GPU.
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  NvmlFacts facts_of(const std::string& pci) const;

 private:
  std::optional<SharedLibrary> library_;
};

}  // namespace zp
