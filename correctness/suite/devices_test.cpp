// What zeroproof devices reads of a host: from folders laid out as the system's, and from a made-up NVML.
#include "harness/suite/devices.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/report/text_table.hpp"

namespace zp {
namespace {

namespace fs = std::filesystem;

// GPUs on two NUMA nodes, the second beside a third one.
class ThreeGpus final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string description() const override { return "three"; }
  std::vector<DeviceFacts> devices() const override {
    const DeviceLimits limits{.processors = 132,
                              .clock_khz = 1'980'000,
                              .memory_clock_khz = 0,
                              .memory_bus_bits = 5120,
                              .l2 = {60 << 20},
                              .shared_of_block = {227 << 10}};
    const auto gpu = [&](const char* name, const char* pci) {
      return DeviceFacts{.name = name,
                         .compute_capability = "9.0",
                         .pci = pci,
                         .uuid = pci,
                         .memory = {1 << 30},
                         .limits = limits,
                         .peers = {{}, {.there = true, .order = 3}, {}}};
    };
    return {gpu("first", "0000:0A:00.0"), gpu("second", "0000:8B:00.0"), gpu("third", "0000:8C:00.0")};
  }
  std::string versions() const override { return "CUDA driver 13.0, runtime 13.0"; }
  std::string carrier_version() const override {
    if (!nccl) fail(Exit::unavailable, "NCCL: not here");
    return "2.28.9";
  }
  void ask_carrier(CarrierLog) const override {}
  std::vector<std::string> carrier_words() const override { return {}; }
  std::string carrier_log() const override { return ""; }
  bool nccl = true;
  std::unique_ptr<Engine> make_engine(int, Fill, double) const override { return nullptr; }
  Bytes workspace(const KernelNeeds&) const override { return {}; }
  std::string vendor() const override { return ""; }
};

// Buses: root 00 holds a bridge with the first GPU and mlx5_0; root 80 a bridge with mlx5_1, and one with the
// other GPUs and mlx5_2; root c0, of the same node, eth1. eth0 is on no bus, lo has no device.
struct Devices : testing::Test {
  fs::path root = fs::temp_directory_path() / "zp_sys_XXXXXX";
  HostSources sources;
  Devices() {
    std::string name = root.string();
    root = mkdtemp(name.data());
    sources.sys = root.string();
    on_bus("0000:0a:00.0", "pci0000:00/0000:00:01.0", 0);
    put("bus/pci/devices/0000:0a:00.0/current_link_speed", "16.0 GT/s PCIe");
    put("bus/pci/devices/0000:0a:00.0/current_link_width", "16");
    put("bus/pci/devices/0000:0a:00.0/max_link_speed", "32.0 GT/s PCIe");
    put("bus/pci/devices/0000:0a:00.0/max_link_width", "16");
    on_bus("0000:8b:00.0", "pci0000:80/0000:80:03.0", 1);
    on_bus("0000:8c:00.0", "pci0000:80/0000:80:03.0", 1);
    nic("infiniband", "mlx5_0", on_bus("0000:0b:00.0", "pci0000:00/0000:00:01.0", 0));
    put("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
    nic("infiniband", "mlx5_1", on_bus("0000:81:00.0", "pci0000:80/0000:80:01.0", 1));
    nic("infiniband", "mlx5_2", on_bus("0000:8d:00.0", "pci0000:80/0000:80:03.0", 1));
    nic("net", "eth1", on_bus("0000:c1:00.0", "pci0000:c0/0000:c0:01.0", 1));
    put("class/net/eth0/device/numa_node", "-1");
    put("class/net/eth0/speed", "25000");
    fs::create_directories(root / "class/net/lo");
    put("devices/system/node/node0/cpulist", "0-7");
    put("devices/system/node/node1/cpulist", "8-15");
    put("devices/system/node/possible", "0-1");
  }
  ~Devices() override { fs::remove_all(root); }

  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text << "\n";
  }
  fs::path on_bus(const std::string& device, const std::string& above, int node) const {
    const fs::path folder = root / "devices" / above / device;
    fs::create_directories(folder);
    std::ofstream(folder / "numa_node") << node << "\n";
    fs::create_directories(root / "bus/pci/devices");
    fs::create_directory_symlink(folder, root / "bus/pci/devices" / device);
    return folder;
  }
  void nic(const std::string& kind, const std::string& name, const fs::path& device) const {
    fs::create_directories(root / "class" / kind / name);
    fs::create_directory_symlink(device, root / "class" / kind / name / "device");
  }
  // Words of the first row that begins with `start`, of the table whose line of heads begins with `head`.
  static std::string row(const std::string& text, const std::string& head, const std::string& start) {
    std::istringstream lines(text);
    bool in_table = false;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string joined;
      for (std::string word; words >> word;) joined += (joined.empty() ? "" : " ") + word;
      if (joined.starts_with(head)) {
        in_table = true;
      } else if (in_table && joined.starts_with(start)) {
        return joined;
      }
    }
    return "no such row";
  }
};

TEST_F(Devices, AreReadFromTheSystemsFolders) {
  const std::vector<Nic> nics = nics_of(sources.sys);
  ASSERT_EQ(nics.size(), 5U);
  EXPECT_EQ(nics[0].name, "mlx5_0");
  EXPECT_EQ(nics[0].speed, "400 Gb/sec (4X NDR)");
  EXPECT_EQ(nics[0].path, (PciPath{"pci0000:00", "0000:00:01.0", "0000:0b:00.0"}));
  EXPECT_EQ(nics[1].numa_node, 1);
  EXPECT_EQ(nics[3].name, "eth0");
  EXPECT_EQ(nics[3].numa_node, std::nullopt);
  EXPECT_EQ(nics[3].path, PciPath{});
  EXPECT_EQ(nics[3].speed, "25000 Mb/s");
  EXPECT_EQ(numa_node_of(sources.sys, "0000:8B:00.0"), 1);
  EXPECT_EQ(numa_node_of(sources.sys, "0000:ff:00.0"), std::nullopt);
  EXPECT_EQ(pci_path_of(sources.sys, "0000:ff:00.0"), PciPath{});
  EXPECT_EQ(pci_link_of(sources.sys, "0000:0A:00.0"), "16.0 GT/s x16 of 32.0 GT/s x16");
  EXPECT_EQ(pci_link_of(sources.sys, "0000:8B:00.0"), "");
  const std::vector<NumaNode> nodes = numa_nodes_of(sources.sys);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[1].number, 1);
  EXPECT_EQ(nodes[1].cores, "8-15");
}

TEST_F(Devices, AreNearByBridgeThenRootThenNode) {
  const auto to = [&](const std::string& pci) {
    return nearness(pci_path_of(sources.sys, "0000:8b:00.0"), 1, pci_path_of(sources.sys, pci),
                    numa_node_of(sources.sys, pci));
  };
  EXPECT_EQ(to("0000:8d:00.0"), Nearness::bridge);
  EXPECT_EQ(to("0000:81:00.0"), Nearness::root);
  EXPECT_EQ(to("0000:c1:00.0"), Nearness::numa_node);
  EXPECT_EQ(to("0000:0b:00.0"), Nearness::host);
  EXPECT_EQ(to("0000:ff:00.0"), Nearness::host) << "nobody knows";
  EXPECT_EQ(nearest_nic({}, {}, 0), nullptr);
}

TEST_F(Devices, PutRanksOnGpusInTurnAndNameTheNearestAdapter) {
  const ThreeGpus backend;
  const std::string text = devices_text({.ranks = 4}, &backend, "", sources);
  const std::string head = "rank of this host";
  EXPECT_EQ(row(text, head, "0 "), "0 0 0 mlx5_0 PCI bridge");
  EXPECT_EQ(row(text, head, "1 "), "1 1 1 mlx5_2 PCI bridge");
  EXPECT_EQ(row(text, head, "2 "), "2 2 1 mlx5_2 PCI bridge");
  EXPECT_EQ(row(text, head, "3 "), "3 0 0 mlx5_0 PCI bridge");
}

TEST_F(Devices, SayWhatIsKnownAndNothingElse) {
  const ThreeGpus backend;
  const std::string text = devices_text({}, &backend, "", sources);
  EXPECT_EQ(row(text, "GPU processors", "0 "), "0 132 1980 n/m 5120 60.0 227");
  EXPECT_EQ(row(text, "GPU PCIe", "0 "), "0 16.0 GT/s x16 of 32.0 GT/s x16 n/m n/m") << text;
  EXPECT_EQ(row(text, "GPU PCIe", "1 "), "1 n/m n/m n/m");
  EXPECT_EQ(row(text, "GPU GPU", "0 1 "), "0 1 host yes 3") << text;
  EXPECT_EQ(row(text, "GPU GPU", "1 2 "), "1 2 PCI bridge no -") << text;
  EXPECT_EQ(row(text, "interface", "mlx5_1 "), "mlx5_1 infiniband n/m 0000:81:00.0 1");
  EXPECT_EQ(row(text, "interface", "eth0 "), "eth0 net 25000 Mb/s - n/m");
  EXPECT_EQ(row(text, "NUMA node cores", "1 "), "1 8-15") << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kTextWidth) << line;
}

TEST_F(Devices, AskNvmlForLinksAndPower) {
  const ThreeGpus backend;
  const Nvml nvml(ZP_MADE_UP_NVML);
  sources.nvml = &nvml;
  const std::string text = devices_text({}, &backend, "", sources);
  EXPECT_EQ(row(text, "GPU PCIe", "0 "), "0 16.0 GT/s x16 of 32.0 GT/s x16 17 links (version 4) 700") << text;
  EXPECT_EQ(row(text, "GPU PCIe", "1 "), "1 n/m none n/m") << text;
  EXPECT_EQ(row(text, "GPU PCIe", "2 "), "2 n/m n/m n/m") << "unknown to it";
  EXPECT_FALSE(Nvml("libno_such_library.so").facts_of("0000:0A:00.0").nvlinks);
}

TEST_F(Devices, AreListedWithTheNcclThatIsThere) {
  ThreeGpus backend;
  EXPECT_NE(devices_text({}, &backend, "", sources).find("by NCCL 2.28.9"), std::string::npos);
  backend.nccl = false;
  EXPECT_NE(devices_text({}, &backend, "", sources).find("\nno --transport nccl: NCCL: not here\n"),
            std::string::npos);
}

TEST_F(Devices, AreNoneWithTheReason) {
  const std::string text = devices_text({}, nullptr, "the reason", sources);
  EXPECT_NE(text.find("\nno GPU: the reason\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank of this host"), std::string::npos) << text;
  EXPECT_EQ(row(text, "interface", "mlx5_0 "), "mlx5_0 infiniband 400 Gb/sec (4X NDR) 0000:0b:00.0 0");
}

}  // namespace
}  // namespace zp
