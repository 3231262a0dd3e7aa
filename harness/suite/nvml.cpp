// NVML by its names. Its functions return 0 where they succeed.
#include "harness/suite/nvml.hpp"

#include <dlfcn.h>

namespace zp {
namespace {

constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 18;  // of any GPU that the library knows of
using Gpu = void*;

// The result of a call; not success where the library has no such function.
template <class... P>
int call(void* library, const char* name, P... arguments) {
  using Function = int(P...);
  auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
  return function == nullptr ? -1 : function(arguments...);
}

}  // namespace

Nvml::Nvml(const std::string& library) : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr || call(library_, "nvmlInit_v2") == kSuccess) return;
  dlclose(library_);
  library_ = nullptr;
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  call(library_, "nvmlShutdown");
  dlclose(library_);
}

NvmlFacts Nvml::facts_of(const std::string& pci) const {
  NvmlFacts facts;
  Gpu gpu = nullptr;
  if (library_ == nullptr ||
      call(library_, "nvmlDeviceGetHandleByPciBusId_v2", pci.c_str(), &gpu) != kSuccess)
    return facts;
  unsigned milliwatts = 0;
  if (call(library_, "nvmlDeviceGetEnforcedPowerLimit", gpu, &milliwatts) == kSuccess)
    facts.power_limit_w = milliwatts * 1e-3;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned active = 0, version = 0;
    if (call(library_, "nvmlDeviceGetNvLinkState", gpu, link, &active) != kSuccess) continue;
    facts.nvlinks = facts.nvlinks.value_or(0) + (active != 0 ? 1 : 0);
    if (active == 0 || facts.nvlink_version) continue;
    if (call(library_, "nvmlDeviceGetNvLinkVersion", gpu, link, &version) == kSuccess)
      facts.nvlink_version = static_cast<int>(version);
  }
  return facts;
}

}  // namespace zp
