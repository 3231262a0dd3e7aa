// Runs the tests of a process that may be a rank of an MPI job: every rank runs the same tests in the same
// order, rank 0 prints all, the others their failures, and the job ends with one code.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "harness/transport/transport.hpp"

namespace {

class FailuresOnly final : public testing::EmptyTestEventListener {
  // A result comes while GoogleTest is locked: it cannot be asked then which test it is of.
  void OnTestStart(const testing::TestInfo& test) override { test_ = test.name(); }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << test_ << " " << (result.file_name() == nullptr ? "" : result.file_name()) << ":"
              << result.line_number() << ": " << result.message() << "\n";
  }

  std::string test_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank != nullptr && std::atoi(rank) != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  zp::end_processes(static_cast<zp::Exit>(RUN_ALL_TESTS()));
}
