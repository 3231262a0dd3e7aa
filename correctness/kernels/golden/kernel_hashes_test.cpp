// A hash of a kernel sees every element that the kernel writes, and what the golden file says otherwise is
// named.
#include "correctness/kernels/golden/kernel_hashes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/access.hpp"

namespace zp::kernels {
namespace {

// Runs a call and then flips the lowest bit of one element of one of the results.
class Flipped final : public Table {
 public:
  Flipped(std::unique_ptr<Table> inner, size_t result, double at)
      : inner_(std::move(inner)), result_(result), at_(at) {}

  void run(const Call& call) override {
    inner_->run(call);
    size_t number = 0;
    for_each_view(call, [&](const View& view, Access access) {
      if (access != Access::written || view.empty() || number++ != result_) return;
      const auto element = static_cast<int64_t>(at_ * static_cast<double>(view.length().n - 1));
      static_cast<unsigned char*>(view.raw())[element * size_of(view.type()).n] ^= 1U;
    });
    if (number > 0 || result_ > 0) return;
    // Results that the host holds.
    if (const auto* sum = std::get_if<SquareSum>(&call)) sum->sum->add(1.0);
    if (const auto* hash = std::get_if<HashRun>(&call)) hash->sum->low += 1U;
  }

 private:
  std::unique_ptr<Table> inner_;
  size_t result_;
  double at_;
};

// Results that the device holds, and how many elements of them are flipped by the test, of no result twice.
struct Results {
  size_t count = 0, elements = 0;
};
Results results_of(const KernelCase& row) {
  const auto device = make_host_device(Fill::zero);
  CaseMemory memory(*device);
  Results results;
  for_each_view(row.make(memory, kOddSizes), [&](const View& view, Access access) {
    if (access != Access::written || view.empty()) return;
    ++results.count;
    results.elements += static_cast<size_t>(std::min<int64_t>(3, view.length().n));
  });
  // Else the host holds one.
  return results.count > 0 ? results : Results{.count = 1, .elements = 1};
}

std::string hash_of(const KernelCase& row, const Dress& dress = {}) {
  return KernelHashes(cpu_backend(), golden_sizes().front(), dress).line(row);
}

TEST(KernelHash, ChangesWithAnyElementOfAnyResult) {
  for (const KernelCase& row : kernel_cases()) {
    std::set<std::string> seen{hash_of(row)};
    const Results results = results_of(row);
    for (size_t result = 0; result < results.count; ++result) {
      for (const double at : {0.0, 0.5, 1.0}) {
        seen.insert(hash_of(row, [&](std::unique_ptr<Table> inner) {
          return std::make_unique<Flipped>(std::move(inner), result, at);
        }));
      }
    }
    EXPECT_EQ(seen.size(), 1 + results.elements) << row.name;
  }
}

TEST(KernelHash, IsThatOfSeveralRanksEachWithDataOfItsOwn) {
  const auto device = make_host_device(Fill::zero);
  std::vector<float> first[2];
  for (uint64_t rank = 0; rank < 2; ++rank) {
    CaseMemory memory(*device, rank);
    const View view = memory.numbers(Type::f32, 100);
    first[rank].assign(view.read<float>(), view.read<float>() + 100);
  }
  EXPECT_NE(first[0], first[1]);
}

TEST(KernelHash, IsComparedWithTheGoldenOneOfTheSameSizes) {
  const std::vector<std::string> lines{"add, odd: 01", "gelu, odd: 02", "sgd, odd: 03"};
  EXPECT_EQ(differences(lines, "head\nadd, odd: 01\ngelu, odd: 02\nsgd, odd: 03\nsgd, large: 09\n", "odd"),
            std::vector<std::string>{});
  EXPECT_EQ(differences(lines, "add, odd: 01\ngelu, odd: 22\nhash, odd: 04\n", "odd"),
            (std::vector<std::string>{"gelu, odd: got 02, expected 22",
                                      "sgd, odd: got 03, and the golden file knows no such kernel",
                                      "hash, odd: got nothing, expected 04"}));
}

}  // namespace
}  // namespace zp::kernels
