// NVML by its names. Its functions return 0 where they succeed.
#include "harness/suite/nvml.hpp"

namespace zp {
namespace {

constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 18;  // of any GPU that the library knows of
using Gpu = void*;

// The result of a call; not success where the library has no such function.
template <class... P>
int call(const SharedLibrary& library, const char* name, P... arguments) {
  auto* const function = library.find_if_here<int(P...)>(name);
  return function == nullptr ? -1 : function(arguments...);
}

}  // namespace

Nvml::Nvml(const std::string& library) : library_(SharedLibrary::if_here(library)) {
  if (library_ && call(*library_, "nvmlInit_v2") != kSuccess) library_.reset();
}

Nvml::~Nvml() {
  if (library_) call(*library_, "nvmlShutdown");
}

NvmlFacts Nvml::facts_of(const std::string& pci) const {
  NvmlFacts facts;
  Gpu gpu = nullptr;
  if (!library_ || call(*library_, "nvmlDeviceGetHandleByPciBusId_v2", pci.c_str(), &gpu) != kSuccess)
    return facts;
  unsigned milliwatts = 0;
  if (call(*library_, "nvmlDeviceGetEnforcedPowerLimit", gpu, &milliwatts) == kSuccess)
    facts.power_limit_w = milliwatts * 1e-3;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned active = 0, version = 0;
    if (call(*library_, "nvmlDeviceGetNvLinkState", gpu, link, &active) != kSuccess) continue;
    facts.nvlinks = facts.nvlinks.value_or(0) + (active != 0 ? 1 : 0);
    if (active == 0 || facts.nvlink_version) continue;
    if (call(*library_, "nvmlDeviceGetNvLinkVersion", gpu, link, &version) == kSuccess)
      facts.nvlink_version = static_cast<int>(version);
  }
  return facts;
}

}  // namespace zp
