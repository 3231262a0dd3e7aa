// Where a host's devices and networks lie, as the system's own folder says, or one laid out like it: buses,
// NUMA nodes, links. What is not there is not known.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace zp {

// From the root complex to the device, such as pci0000:00, 0000:00:01.0, 0000:01:00.0.
using PciPath = std::vector<std::string>;

// A network interface or adapter with a device behind it.
struct Nic {
  std::string name, kind;        // "net" or "infiniband"
  std::optional<int> numa_node;  // none where the system names none
  PciPath path;                  // empty: not on a PCI bus
  std::string speed;             // as the system writes it, with its unit; "": it does not say
};

struct NumaNode {
  int number = 0;
  std::string cores;  // "0-15,32-47"
};

std::vector<Nic> nics_of(const std::string& sys);
std::vector<NumaNode> numa_nodes_of(const std::string& sys);

// Of a PCI device, "0000:0A:00.0".
std::optional<int> numa_node_of(const std::string& sys, const std::string& pci);
PciPath pci_path_of(const std::string& sys, const std::string& pci);
// "32.0 GT/s x16", and after it what both ends could do where that is more; "": not told.
std::string pci_link_of(const std::string& sys, const std::string& pci);

// How near two devices are, best first.
enum class Nearness { bridge, root, numa_node, host };
Nearness nearness(const PciPath& a, const std::optional<int>& node_a, const PciPath& b,
                  const std::optional<int>& node_b);
std::string name_of(Nearness nearness);

// The adapter nearest to a device; InfiniBand before others. Null where there is none.
const Nic* nearest_nic(const std::vector<Nic>& nics, const PciPath& path, const std::optional<int>& node);

}  // namespace zp
