// zeroproof devices: what this host has for ranks to run on, and where they would go.
#pragma once

#include <string>

#include "harness/base/check.hpp"
#include "harness/suite/host_topology.hpp"
#include "harness/suite/nvml.hpp"
#include "harness/trainer/backend.hpp"

namespace zp {

struct DevicesOptions {
  int ranks = 0;                // of this host; 0: one for each GPU
  std::string device = "cuda";  // whose GPUs
};

// Where it is read.
struct HostSources {
  std::string sys = "/sys";  // or a folder laid out like it
  const Nvml* nvml = nullptr;
};

// The tables. `backend`: none where `why` says why not.
std::string devices_text(const DevicesOptions& options, const Backend* backend, const std::string& why,
                         const HostSources& sources);

// Prints them. A host without a GPU is an answer too.
Exit devices(const DevicesOptions& options);

}  // namespace zp
