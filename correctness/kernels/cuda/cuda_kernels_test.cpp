// Every row of the table of kernels leaves the host's bits when it runs as CUDA code. Links the emulated
// runtime, or NVIDIA's where there is a GPU.
#include "correctness/kernels/cuda/both_tables.hpp"
#include "kernels/cases.hpp"

namespace zp::kernels {
namespace {

struct Sizes {
  const char* name;
  CaseSizes of;
};

constexpr Sizes kSizes[] = {
    {"odd", kOddSizes},
    // Whole tiles and vectors.
    {"even", {.batch = 1, .sequence = 64, .width = 64, .heads = 1, .vocabulary = 128, .parameters = 8192}},
    // Chains that are cut at 512; heads wider than a tile; rows and tiles that end within a tile.
    {"long", {.batch = 1, .sequence = 577, .width = 132, .heads = 2, .vocabulary = 260, .parameters = 70001}},
    {"least", {.batch = 1, .sequence = 1, .width = 1, .heads = 1, .vocabulary = 1, .parameters = 1}},
};

struct SizedCase {
  KernelCase row;
  Sizes sizes;
};

std::vector<SizedCase> sized_cases() {
  std::vector<SizedCase> all;
  for (const KernelCase& row : kernel_cases()) {
    for (const Sizes& sizes : kSizes) all.push_back({row, sizes});
  }
  return all;
}

void PrintTo(const SizedCase& one, std::ostream* out) { *out << one.row.name << ", " << one.sizes.name; }

class EveryCudaKernel : public testing::TestWithParam<SizedCase> {};

TEST_P(EveryCudaKernel, LeavesTheHostsBits) {
  const auto& [row, sizes] = GetParam();
  BothTables tables(sizes.of.rows() * sizes.of.heads, sizes.of.sequence);
  CaseMemory on_host(tables.host_memory()), on_device(tables.cuda_memory());
  tables.table(Side::host).run(row.make(on_host, sizes.of));
  tables.table(Side::cuda).run(row.make(on_device, sizes.of));
  tables.wait();
  EXPECT_EQ(to_string(on_device.digest()), to_string(on_host.digest()));
}

INSTANTIATE_TEST_SUITE_P(, EveryCudaKernel, testing::ValuesIn(sized_cases()), [](const auto& info) {
  std::string name = std::string(info.param.row.name) + "_" + info.param.sizes.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

}  // namespace
}  // namespace zp::kernels
