// A library with the names of NVIDIA's management library: one GPU with 17 of 18 NVLinks of version 4 and
// 700 W, one without NVLink, of whose power it says nothing, and no other.
#include <cstring>

namespace {

constexpr int kSuccess = 0, kNotFound = 6, kNotSupported = 3;
int first = 0, second = 0;

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** gpu) {
  if (std::strcmp(pci, "0000:0A:00.0") == 0) *gpu = &first;
  if (std::strcmp(pci, "0000:8B:00.0") == 0) *gpu = &second;
  return *gpu == nullptr ? kNotFound : kSuccess;
}

int nvmlDeviceGetEnforcedPowerLimit(void* gpu, unsigned* milliwatts) {
  *milliwatts = 700'000;
  return gpu == &first ? kSuccess : kNotSupported;
}

int nvmlDeviceGetNvLinkState(void* gpu, unsigned link, unsigned* active) {
  *active = gpu == &first && link != 4 ? 1 : 0;
  return link < 18 ? kSuccess : kNotSupported;
}

int nvmlDeviceGetNvLinkVersion(void*, unsigned, unsigned* version) {
  *version = 4;
  return kSuccess;
}
}
