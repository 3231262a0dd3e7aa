// What zeroproof devices reads of a host: from folders laid out as the system's.
#include "harness/suite/devices.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace zp {
namespace {

namespace fs = std::filesystem;

// Two GPUs on two NUMA nodes, an InfiniBand adapter near each, and one interface that has no device.
class TwoGpus final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string description() const override { return "two"; }
  std::vector<DeviceFacts> devices() const override {
    return {{.name = "first", .compute_capability = "9.0", .pci = "0000:0A:00.0", .memory = {1 << 30}},
            {.name = "second", .compute_capability = "9.0", .pci = "0000:8B:00.0", .memory = {2 << 29}}};
  }
  std::string versions() const override { return "CUDA driver 13.0, runtime 13.0"; }
  std::unique_ptr<Engine> make_engine(int, Fill) const override { return nullptr; }
  Bytes workspace(const KernelNeeds&) const override { return {}; }
};

struct Devices : testing::Test {
  std::string sys = (fs::temp_directory_path() / "zp_sys_XXXXXX").string();
  Devices() {
    mkdtemp(sys.data());
    put("bus/pci/devices/0000:0a:00.0/numa_node", 0);
    put("bus/pci/devices/0000:8b:00.0/numa_node", 1);
    put("class/infiniband/mlx5_0/device/numa_node", 0);
    put("class/infiniband/mlx5_1/device/numa_node", 1);
    put("class/net/eth0/device/numa_node", -1);
    fs::create_directories(fs::path(sys) / "class/net/lo");
  }
  ~Devices() override { fs::remove_all(sys); }
  void put(const std::string& file, int number) const {
    const fs::path path = fs::path(sys) / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << number << "\n";
  }
};

TEST_F(Devices, AreFoundWithTheirNumaNodes) {
  const std::vector<Nic> nics = nics_of(sys);
  ASSERT_EQ(nics.size(), 3U);
  EXPECT_EQ(nics[0].name, "mlx5_0");
  EXPECT_EQ(nics[1].numa_node, 1);
  EXPECT_EQ(nics[2].name, "eth0");
  EXPECT_EQ(nics[2].numa_node, std::nullopt);
  EXPECT_EQ(numa_node_of(sys, "0000:8B:00.0"), 1);
  EXPECT_EQ(numa_node_of(sys, "0000:ff:00.0"), std::nullopt);
}

TEST_F(Devices, PutRanksOnGpusInTurnAndNameTheNearestAdapter) {
  const TwoGpus backend;
  const std::string text = devices_text({.ranks = 3}, &backend, "", sys);
  const std::string table = text.substr(text.find("rank of this host"));
  std::vector<std::string> rows;
  for (size_t at = table.find('\n'); at != std::string::npos; at = table.find('\n', at + 1))
    rows.push_back(table.substr(at + 1, table.find('\n', at + 1) - at - 1));
  ASSERT_GE(rows.size(), 4U);
  const std::array<std::pair<std::string, std::string>, 3> expected{
      {{"0 ", " mlx5_0"}, {"1 ", " mlx5_1"}, {"0 ", " mlx5_0"}}};
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    EXPECT_TRUE(rows[rank + 1].starts_with(std::to_string(rank) + " ")) << rows[rank + 1];
    EXPECT_NE(rows[rank + 1].find(" " + expected[rank].first), std::string::npos) << rows[rank + 1];
    EXPECT_TRUE(rows[rank + 1].ends_with(expected[rank].second)) << rows[rank + 1];
  }
}

TEST_F(Devices, AreNoneWithTheReason) {
  const std::string text = devices_text({}, nullptr, "the reason", sys);
  EXPECT_NE(text.find("\nno GPU: the reason\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank of this host"), std::string::npos) << text;
}

}  // namespace
}  // namespace zp
