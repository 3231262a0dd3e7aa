// zeroproof devices: what this host has for ranks to run on, and where they would go.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/trainer/backend.hpp"

namespace zp {

struct DevicesOptions {
  int ranks = 0;                // of this host; 0: one for each GPU
  std::string device = "cuda";  // whose GPUs
};

// A network interface or adapter.
struct Nic {
  std::string name, kind;        // "net" or "infiniband"
  std::optional<int> numa_node;  // none where the system names none
};

// What /sys, or a folder like it, says: network interfaces with a device behind them, and the NUMA node of a
// PCI device.
std::vector<Nic> nics_of(const std::string& sys);
std::optional<int> numa_node_of(const std::string& sys, const std::string& pci);

// The table. `backend`: none where `why` says why not.
std::string devices_text(const DevicesOptions& options, const Backend* backend, const std::string& why,
                         const std::string& sys);

// Prints it. A host without a GPU is an answer too.
Exit devices(const DevicesOptions& options);

}  // namespace zp
