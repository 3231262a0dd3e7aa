// The pool of kernel threads, and the choice of a table.
#include "kernels/host/pool.hpp"

#include <atomic>
#include <numeric>

#include "correctness/kernels/hosts.hpp"

namespace zp::kernels {
namespace {

TEST(Pool, RunsEveryIndexOnceForAnyCountAndThreads) {
  for (const int threads : {1, 2, 3, 5}) {
    Pool pool(threads);
    for (const int64_t count : {0, 1, 2, 3, 7, 100, 1000}) {
      std::vector<int> runs(static_cast<size_t>(count), 0);
      pool.parallel_for(count, [&](int64_t index, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        runs[static_cast<size_t>(index)] += 1;
      });
      EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(count), 1)) << threads << " threads";
    }
  }
}

TEST(Pool, GivesAWorkersNumberToOneThreadAtATime) {
  Pool pool(3);
  std::array<std::atomic<int>, 3> inside{};
  for (int round = 0; round < 50; ++round) {
    pool.parallel_for(20, [&](int64_t, int worker) {
      EXPECT_EQ(inside[static_cast<size_t>(worker)]++, 0);
      inside[static_cast<size_t>(worker)]--;
    });
  }
}

TEST(Pool, RethrowsAnExceptionAndStaysUsable) {
  for (const int threads : {1, 3}) {
    Pool pool(threads);
    for (int round = 0; round < 20; ++round) {
      EXPECT_THROW(pool.parallel_for(100,
                                     [](int64_t index) {
                                       if (index == 37) fail(Exit::usage, "index 37");
                                     }),
                   Error);
      std::atomic<int64_t> sum = 0;
      pool.parallel_for(100, [&](int64_t index) { sum += index; });
      EXPECT_EQ(sum, 4950);
    }
  }
}

TEST(HostTable, AcquiresItsWorkspaceInOneBufferOfThePredictedSize) {
  class Counting final : public Device {
   public:
    void* allocate(Category category, Bytes bytes) override {
      EXPECT_EQ(category, Category::workspace);
      acquired.push_back(bytes);
      return memory_->allocate(category, bytes);
    }
    void release(Category category, void* data, Bytes bytes) noexcept override {
      memory_->release(category, data, bytes);
    }
    FarMemory* far_memory() override { return nullptr; }
    std::vector<Bytes> acquired;

   private:
    std::unique_ptr<Device> memory_ = make_host_device(Fill::zero);
  };
  for (const int threads : {1, 2, 3}) {
    for (const int64_t sequence : {0, 1, 17, 256, 600, 1024, 2000}) {
      Counting device;
      const auto table =
          make_host_table(device, {.threads = threads, .max_sequence = sequence, .isa = Isa::best});
      const int64_t t = (sequence + 31) / 32 * 32;
      const int64_t gemm = 512 * (1024 + 192 * threads);
      const int64_t attention =
          sequence == 0 ? 0 : threads * (2 * std::min<int64_t>(t, 512) * (t + 16) + (t + 72) * 512);
      EXPECT_EQ(device.acquired, std::vector<Bytes>{{4 * std::max(gemm, attention)}});
      EXPECT_EQ(host_workspace({.threads = threads, .max_sequence = sequence, .isa = Isa::best}),
                device.acquired.front());
    }
  }
}

TEST(HostTable, RefusesAThreadCountThatCannotBe) {
  const auto device = make_host_device(Fill::zero);
  for (const int threads : {-1, 0, 1025}) {
    try {
      make_host_table(*device, {.threads = threads, .max_sequence = 0, .isa = Isa::best});
      ADD_FAILURE() << threads << " threads were accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::usage) << error.what();
    }
  }
}

}  // namespace
}  // namespace zp::kernels
