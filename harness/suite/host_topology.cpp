// Reading of the system's folder.
#include "harness/suite/host_topology.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <tuple>

namespace zp {
namespace {

namespace fs = std::filesystem;

// The first line of a file of the system's; "" where there is none, or it cannot be read now.
std::string line_in(const fs::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

// A number; none where there is none, or it says -1.
std::optional<int> number_in(const fs::path& file) {
  int number = -1;
  std::ifstream(file) >> number;
  return number < 0 ? std::nullopt : std::optional(number);
}

fs::path folder_of(const std::string& sys, const std::string& pci) {
  std::string name = pci;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return fs::path(sys) / "bus/pci/devices" / name;
}

// Folders of devices lie in those of the bridges above them.
PciPath pci_path(const fs::path& device) {
  static const std::regex of_pci("pci[0-9a-f]{4}:[0-9a-f]{2}|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]");
  std::error_code error;
  PciPath path;
  for (const fs::path& part : fs::canonical(device, error)) {
    if (std::regex_match(part.string(), of_pci)) path.push_back(part.string());
  }
  return path;
}

std::string speed_of(const fs::path& nic, const std::string& kind) {
  if (kind == "net") {
    const std::optional<int> megabits = number_in(nic / "speed");
    return megabits ? std::to_string(*megabits) + " Mb/s" : "";
  }
  std::error_code error;
  std::vector<fs::path> ports;
  for (const auto& port : fs::directory_iterator(nic / "ports", error)) ports.push_back(port.path());
  std::ranges::sort(ports);
  std::string text;
  for (const fs::path& port : ports) {
    const std::string rate = line_in(port / "rate");
    if (!rate.empty()) text += (text.empty() ? "" : ", ") + rate;
  }
  return text;
}

}  // namespace

std::vector<Nic> nics_of(const std::string& sys) {
  std::vector<Nic> nics;
  for (const std::string kind : {"infiniband", "net"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(sys) / "class" / kind, error)) {
      const fs::path device = entry.path() / "device";
      if (!fs::exists(device, error)) continue;
      nics.push_back({.name = entry.path().filename().string(),
                      .kind = kind,
                      .numa_node = number_in(device / "numa_node"),
                      .path = pci_path(device),
                      .speed = speed_of(entry.path(), kind)});
    }
  }
  std::ranges::sort(nics, {}, [](const Nic& nic) { return std::pair(nic.kind, nic.name); });
  return nics;
}

std::vector<NumaNode> numa_nodes_of(const std::string& sys) {
  static const std::regex name("node([0-9]+)");
  std::vector<NumaNode> nodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(sys) / "devices/system/node", error)) {
    std::smatch match;
    const std::string folder = entry.path().filename().string();
    if (!std::regex_match(folder, match, name)) continue;
    nodes.push_back({.number = std::stoi(match[1]), .cores = line_in(entry.path() / "cpulist")});
  }
  std::ranges::sort(nodes, {}, &NumaNode::number);
  return nodes;
}

std::optional<int> numa_node_of(const std::string& sys, const std::string& pci) {
  return number_in(folder_of(sys, pci) / "numa_node");
}

PciPath pci_path_of(const std::string& sys, const std::string& pci) { return pci_path(folder_of(sys, pci)); }

std::string pci_link_of(const std::string& sys, const std::string& pci) {
  const fs::path folder = folder_of(sys, pci);
  const auto link = [&](const std::string& which) {
    std::string speed = line_in(folder / (which + "_link_speed"));
    const std::string width = line_in(folder / (which + "_link_width"));
    if (speed.empty() || width.empty()) return std::string();
    speed = speed.substr(0, speed.find(" PCIe"));  // "32.0 GT/s PCIe"
    return speed + " x" + width;
  };
  const std::string now = link("current"), most = link("max");
  return now.empty() || most.empty() || now == most ? now : now + " of " + most;
}

Nearness nearness(const PciPath& a, const std::optional<int>& node_a, const PciPath& b,
                  const std::optional<int>& node_b) {
  const auto [end, unused] = std::ranges::mismatch(a, b);
  const std::ptrdiff_t shared = end - a.begin();
  if (shared > 1) return Nearness::bridge;
  if (shared == 1) return Nearness::root;
  return node_a && node_a == node_b ? Nearness::numa_node : Nearness::host;
}

std::string name_of(Nearness nearness) {
  switch (nearness) {
    case Nearness::bridge: return "PCI bridge";
    case Nearness::root: return "root complex";
    case Nearness::numa_node: return "NUMA node";
    case Nearness::host: return "host";
  }
  return "?";
}

const Nic* nearest_nic(const std::vector<Nic>& nics, const PciPath& path, const std::optional<int>& node) {
  const auto far = [&](const Nic& nic) {
    const auto shared = std::ranges::mismatch(path, nic.path).in1 - path.begin();
    return std::tuple(nic.kind != "infiniband", nearness(path, node, nic.path, nic.numa_node), -shared);
  };
  const auto found = std::ranges::min_element(nics, {}, far);
  return found == nics.end() ? nullptr : &*found;
}

}  // namespace zp
