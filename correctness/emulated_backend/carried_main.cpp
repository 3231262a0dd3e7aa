// Tests whose host reads the emulated devices' memory where it lies.
#include <gtest/gtest.h>

#include "correctness/cuda_emulator/settings.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  zp::emulated::configure({.guard = 0});
  return RUN_ALL_TESTS();
}
