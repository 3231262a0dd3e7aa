// Tests whose host reads the emulated devices' memory where it lies.
#include <gtest/gtest.h>

#include <cstdlib>

#include "correctness/cuda_emulator/settings.hpp"

int main(int argc, char** argv) {
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0);  // as the backend does
  testing::InitGoogleTest(&argc, argv);
  zp::emulated::configure({.guard = 0});
  return RUN_ALL_TESTS();
}
