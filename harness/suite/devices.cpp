// What this host has for ranks to run on: read from CUDA, from NVML and from the system's own folders.
#include "harness/suite/devices.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "harness/report/environment.hpp"
#include "harness/report/text_table.hpp"

namespace zp {
namespace {

using Gpus = std::vector<DeviceFacts>;

constexpr const char* kUnknown = "n/m";

std::string text_of(const std::optional<int>& number) { return number ? std::to_string(*number) : kUnknown; }
std::string or_unknown(const std::string& text) { return text.empty() ? kUnknown : text; }
std::string nonzero(double number, int decimals) {
  return number > 0 ? fmt::format("{:.{}f}", number, decimals) : kUnknown;
}

std::string gpu_table(const Gpus& gpus, const HostSources& sources) {
  TextTable table({"GPU", "name", "memory GiB", "capability", "PCI", "NUMA node"});
  for (size_t i = 0; i < gpus.size(); ++i) {
    table.add({std::to_string(i), gpus[i].name,
               fmt::format("{:.1f}", static_cast<double>(gpus[i].memory.n) / (1 << 30)),
               gpus[i].compute_capability, gpus[i].pci, text_of(numa_node_of(sources.sys, gpus[i].pci))});
  }
  return table.text();
}

std::string nvlink_text(const NvmlFacts& facts) {
  if (!facts.nvlinks) return kUnknown;
  if (*facts.nvlinks == 0) return "none";
  const std::string version = facts.nvlink_version ? fmt::format(" (version {})", *facts.nvlink_version) : "";
  return fmt::format("{} links{}", *facts.nvlinks, version);
}

std::string limit_table(const Gpus& gpus) {
  TextTable table({"GPU", "processors", "MHz", "memory MHz", "bus bits", "L2 MiB", "KiB a block"});
  for (size_t i = 0; i < gpus.size(); ++i) {
    const DeviceLimits& limits = gpus[i].limits;
    table.add({std::to_string(i), nonzero(limits.processors, 0), nonzero(limits.clock_khz * 1e-3, 0),
               nonzero(limits.memory_clock_khz * 1e-3, 0), nonzero(limits.memory_bus_bits, 0),
               nonzero(static_cast<double>(limits.l2.n) / (1 << 20), 1),
               nonzero(static_cast<double>(limits.shared_of_block.n) / 1024, 0)});
  }
  return table.text();
}

std::string link_table(const Gpus& gpus, const HostSources& sources) {
  TextTable table({"GPU", "PCIe", "NVLink", "power limit W"});
  for (size_t i = 0; i < gpus.size(); ++i) {
    const NvmlFacts facts = sources.nvml == nullptr ? NvmlFacts{} : sources.nvml->facts_of(gpus[i].pci);
    table.add({std::to_string(i), or_unknown(pci_link_of(sources.sys, gpus[i].pci)), nvlink_text(facts),
               nonzero(facts.power_limit_w.value_or(0), 0)});
  }
  return table.text();
}

// Between GPUs: how near they lie, and whether one reaches the other's memory by itself.
std::string peer_table(const Gpus& gpus, const HostSources& sources) {
  if (gpus.size() < 2) return "";
  TextTable table({"GPU", "GPU", "common", "peer access", "order"});
  const auto place = [&](const DeviceFacts& gpu) {
    return std::pair(pci_path_of(sources.sys, gpu.pci), numa_node_of(sources.sys, gpu.pci));
  };
  for (size_t a = 0; a < gpus.size(); ++a) {
    for (size_t b = a + 1; b < gpus.size(); ++b) {
      const auto [path_a, node_a] = place(gpus[a]);
      const auto [path_b, node_b] = place(gpus[b]);
      const PeerAccess access = b < gpus[a].peers.size() ? gpus[a].peers[b] : PeerAccess{};
      table.add({std::to_string(a), std::to_string(b), name_of(nearness(path_a, node_a, path_b, node_b)),
                 access.there ? "yes" : "no", access.there ? std::to_string(access.order) : "-"});
    }
  }
  return table.text() + "\n";
}

std::string nic_table(const std::vector<Nic>& nics) {
  if (nics.empty()) return "no network interface with a device behind it\n";
  TextTable table({"interface", "kind", "speed", "PCI", "NUMA node"});
  for (const Nic& nic : nics) {
    table.add({nic.name, nic.kind, or_unknown(nic.speed), nic.path.empty() ? "-" : nic.path.back(),
               text_of(nic.numa_node)});
  }
  return table.text();
}

std::string numa_table(const std::vector<NumaNode>& nodes) {
  if (nodes.empty()) return "NUMA nodes: not measured\n";
  TextTable table({"NUMA node", "cores"});
  for (const NumaNode& node : nodes) table.add({std::to_string(node.number), or_unknown(node.cores)});
  return table.text();
}

std::string placement(int ranks, const Gpus& gpus, const std::vector<Nic>& nics, const std::string& sys) {
  TextTable table({"rank of this host", "GPU", "NUMA node", "nearest interface", "common"});
  for (int rank = 0; rank < ranks; ++rank) {
    const size_t gpu = static_cast<size_t>(rank) % gpus.size();
    const PciPath path = pci_path_of(sys, gpus[gpu].pci);
    const std::optional<int> node = numa_node_of(sys, gpus[gpu].pci);
    const Nic* nic = nearest_nic(nics, path, node);
    table.add({std::to_string(rank), std::to_string(gpu), text_of(node), nic == nullptr ? "-" : nic->name,
               nic == nullptr ? "-" : name_of(nearness(path, node, nic->path, nic->numa_node))});
  }
  return table.text();
}

std::string nccl_line(const Backend& backend) {
  try {
    return "or go between GPUs by NCCL " + backend.carrier_version() + " (--transport nccl)\n";
  } catch (const Error& error) {
    return std::string("no --transport nccl: ") + error.what() + "\n";
  }
}

}  // namespace

std::string devices_text(const DevicesOptions& options, const Backend* backend, const std::string& why,
                         const HostSources& sources) {
  const std::vector<Nic> nics = nics_of(sources.sys);
  const std::string host = nic_table(nics) + "\n" + numa_table(numa_nodes_of(sources.sys));
  const std::string note = "\nn/m: not measured, the system does not say\n";
  const std::string cores = fmt::format("{} cores for this process\n\n", usable_cores());
  if (backend == nullptr) return cores + "no GPU: " + why + "\n\n" + host + note;
  const Gpus gpus = backend->devices();
  const int ranks = options.ranks > 0 ? options.ranks : static_cast<int>(gpus.size());
  return cores + backend->versions() + "\n" + gpu_table(gpus, sources) + "\n" + limit_table(gpus) + "\n" +
         link_table(gpus, sources) + "\n" + peer_table(gpus, sources) + host + "\n" +
         placement(ranks, gpus, nics, sources.sys) +
         "messages are staged through pinned memory, or handed to an MPI that is shown to be GPU-aware\n" +
         nccl_line(*backend) + note;
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
  const Nvml nvml;
  std::fputs(devices_text(options, backend, why, {.nvml = &nvml}).c_str(), stdout);
  return Exit::pass;
}

}  // namespace zp
