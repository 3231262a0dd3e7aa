// What this host has for ranks to run on: read from CUDA and from the system's own folders.
#include "harness/suite/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "harness/report/environment.hpp"
#include "harness/report/text_table.hpp"

namespace zp {
namespace {

namespace fs = std::filesystem;

// A number in a file of the system's; none where it has none, or says -1.
std::optional<int> node_in(const fs::path& file) {
  int node = -1;
  std::ifstream(file) >> node;
  return node < 0 ? std::nullopt : std::optional(node);
}

std::string text_of(const std::optional<int>& node) { return node ? std::to_string(*node) : "-"; }

// The adapter nearest to a GPU: InfiniBand before others, the same NUMA node before others.
const Nic* nearest(const std::vector<Nic>& nics, const std::optional<int>& node) {
  const auto worse = [&](const Nic& a, const Nic& b) {
    const auto far = [&](const Nic& nic) {
      return std::pair(nic.kind != "infiniband", !node || nic.numa_node != node);
    };
    return far(a) < far(b);
  };
  const auto found = std::ranges::min_element(nics, worse);
  return found == nics.end() ? nullptr : &*found;
}

std::string gpu_table(const std::vector<DeviceFacts>& gpus, const std::string& sys) {
  TextTable table({"GPU", "name", "memory GiB", "capability", "PCI", "NUMA node"});
  for (size_t i = 0; i < gpus.size(); ++i) {
    table.add({std::to_string(i), gpus[i].name,
               fmt::format("{:.1f}", static_cast<double>(gpus[i].memory.n) / (1 << 30)),
               gpus[i].compute_capability, gpus[i].pci, text_of(numa_node_of(sys, gpus[i].pci))});
  }
  return table.text();
}

std::string nic_table(const std::vector<Nic>& nics) {
  if (nics.empty()) return "no network interface with a device behind it\n";
  TextTable table({"interface", "kind", "NUMA node"});
  for (const Nic& nic : nics) table.add({nic.name, nic.kind, text_of(nic.numa_node)});
  return table.text();
}

std::string placement(int ranks, const std::vector<DeviceFacts>& gpus, const std::vector<Nic>& nics,
                      const std::string& sys) {
  TextTable table({"rank of this host", "GPU", "nearest interface"});
  for (int rank = 0; rank < ranks; ++rank) {
    const size_t gpu = static_cast<size_t>(rank) % gpus.size();
    const Nic* nic = nearest(nics, numa_node_of(sys, gpus[gpu].pci));
    table.add({std::to_string(rank), std::to_string(gpu), nic == nullptr ? "-" : nic->name});
  }
  return table.text();
}

}  // namespace

std::vector<Nic> nics_of(const std::string& sys) {
  std::vector<Nic> nics;
  for (const char* kind : {"infiniband", "net"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(sys) / "class" / kind, error)) {
      const fs::path device = entry.path() / "device";
      if (fs::exists(device, error))
        nics.push_back({entry.path().filename().string(), kind, node_in(device / "numa_node")});
    }
  }
  std::ranges::sort(nics, {}, [](const Nic& nic) { return std::pair(nic.kind, nic.name); });
  return nics;
}

std::optional<int> numa_node_of(const std::string& sys, const std::string& pci) {
  std::string name = pci;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return node_in(fs::path(sys) / "bus/pci/devices" / name / "numa_node");
}

std::string devices_text(const DevicesOptions& options, const Backend* backend, const std::string& why,
                         const std::string& sys) {
  const std::vector<Nic> nics = nics_of(sys);
  std::string text = fmt::format("{} cores for this process\n\n", usable_cores());
  if (backend == nullptr) return text + "no GPU: " + why + "\n\n" + nic_table(nics);
  const std::vector<DeviceFacts> gpus = backend->devices();
  text += backend->versions() + "\n" + gpu_table(gpus, sys) + "\n" + nic_table(nics) + "\n";
  const int ranks = options.ranks > 0 ? options.ranks : static_cast<int>(gpus.size());
  text += placement(ranks, gpus, nics, sys);
  return text + "messages are staged through pinned memory, whichever interface carries them\n";
}

Exit devices(const DevicesOptions& options) {
  const Backend* backend = nullptr;
  std::string why;
  try {
    backend = &backend_named(options.device);
  } catch (const Error& error) {
    if (error.code() != Exit::unavailable) throw;
    why = error.what();
  }
  std::fputs(devices_text(options, backend, why, "/sys").c_str(), stdout);
  return Exit::pass;
}

}  // namespace zp
