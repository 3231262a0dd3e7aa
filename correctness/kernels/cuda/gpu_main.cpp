// The tests of CUDA kernels on a GPU; without one they are skipped, with the driver's own words.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace {

constexpr int kSkipped = 77;  // as the test's registration says

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;  // left as it is where the call fails
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU: %s (%d)\n", cudaGetErrorString(status), static_cast<int>(status));
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
