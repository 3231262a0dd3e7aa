// What holds for every row of the table of kernels.
#include <map>
#include <set>

#include "correctness/kernels/hosts.hpp"
#include "kernels/cases.hpp"

namespace zp::kernels {
namespace {

class EveryKernel : public testing::TestWithParam<KernelCase> {};

// What a run leaves behind, on fresh memory filled with `fill`.
HashSum left_behind(const KernelCase& row, const Host& host, Fill fill) {
  const auto device = make_host_device(fill);
  CaseMemory memory(*device);
  const auto table = make_host_table(
      *device, {.threads = host.threads, .max_sequence = kOddSizes.sequence, .isa = host.isa});
  table->run(row.make(memory, kOddSizes));
  return memory.digest();
}

TEST_P(EveryKernel, LeavesTheSameBitsOnEveryIsaAndThreadCount) {
  const HashSum expected = left_behind(GetParam(), hosts().front(), Fill::nan);
  for (const Host& host : hosts()) {
    EXPECT_EQ(to_string(left_behind(GetParam(), host, Fill::nan)), to_string(expected)) << text_of(host);
  }
}

TEST_P(EveryKernel, DependsOnNothingThatItWasNotGiven) {
  for (const Host& host : hosts()) {
    EXPECT_EQ(to_string(left_behind(GetParam(), host, Fill::zero)),
              to_string(left_behind(GetParam(), host, Fill::nan)))
        << text_of(host);
  }
}

INSTANTIATE_TEST_SUITE_P(, EveryKernel, testing::ValuesIn(kernel_cases().begin(), kernel_cases().end()),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

TEST(KernelCases, HoldEveryKernelAndNameIt) {
  const auto device = make_host_device(Fill::zero);
  std::set<size_t> alternatives;
  for (const KernelCase& row : kernel_cases()) {
    CaseMemory memory(*device);
    const Call call = row.make(memory, kOddSizes);
    alternatives.insert(call.index());
    EXPECT_EQ(row.name.substr(0, name_of(call).size()), name_of(call));
    EXPECT_GT(elements_of(call).n, 0) << row.name;
  }
  EXPECT_EQ(alternatives.size(), std::variant_size_v<Call>);
}

TEST(KernelCases, CountTheElementsOfTheContract) {
  const auto device = make_host_device(Fill::zero);
  constexpr int64_t rows = 2 * 67;
  constexpr int64_t terms = 2 * 67 * 68 / 2 * 45;  // on and below the diagonal, over 3 heads of 15
  const std::map<std::string_view, int64_t> expected{{"gemm forward", rows * 180 * 45},
                                                     {"gemm weight gradient", rows * 180 * 45},
                                                     {"add bias", rows * 45},
                                                     {"bias backward", rows * 45},
                                                     {"layer norm", rows * 45},
                                                     {"layer norm backward", rows * 45},
                                                     {"attention", terms},
                                                     {"attention backward", terms},
                                                     {"gelu", rows * 180},
                                                     {"gelu backward", rows * 180},
                                                     {"add", rows * 45},
                                                     {"embedding", rows * 45},
                                                     {"embedding backward", rows * 45},
                                                     {"cross entropy", rows * 97},
                                                     {"cross entropy backward", rows * 97},
                                                     {"cast to bf16", 4099},
                                                     {"fold of 2", 4099},
                                                     {"fold of 8 bf16", 7 * 4099},
                                                     {"divide", 4099},
                                                     {"integer fold of 8 to fp32", 7 * 4099},
                                                     {"from fixed", 4099},
                                                     {"to fixed", 4099},
                                                     {"adamw", 4099},
                                                     {"sgd", 4099},
                                                     {"square sum", 4099},
                                                     {"hash", 4099},
                                                     {"replica hash", 4099},
                                                     {"initialize", 4099},
                                                     {"synthetic gradient", 4099}};
  size_t found = 0;
  for (const KernelCase& row : kernel_cases()) {
    if (!expected.contains(row.name)) continue;
    CaseMemory memory(*device);
    EXPECT_EQ(elements_of(row.make(memory, kOddSizes)).n, expected.at(row.name)) << row.name;
    ++found;
  }
  EXPECT_EQ(found, expected.size());
}

}  // namespace
}  // namespace zp::kernels
