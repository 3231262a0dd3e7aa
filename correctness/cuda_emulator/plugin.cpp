// Kernels and the emulated runtime as a library that a program opens while it runs, as it opens a CUDA
// backend: what threads keep for themselves (indices, shared memory) must not need room in the threads that
// are there already.
#include <algorithm>

#include "correctness/cuda_emulator/checked.hpp"
#include "correctness/cuda_emulator/lab.hpp"

// Whether a kernel with shared memory leaves what it should.
extern "C" __attribute__((visibility("default"))) int zp_emulator_plugin() {
  using namespace zp::lab;
  constexpr int kBlock = 96;
  const TestStream stream;
  const OnDevice<float> from(2 * kBlock), to(2 * kBlock);
  const OnHost<float> host(2 * kBlock);
  must(fill(from, 3, 2 * kBlock, stream));
  must(reverse(from, to, kBlock, 0, stream));
  must(cudaMemcpyAsync(host, to, 2 * kBlock * sizeof(float), cudaMemcpyDeviceToHost, stream));
  stream.wait();
  return std::count(host + 0, host + 2 * kBlock, 3.0F) == 2 * kBlock ? 1 : 0;
}
