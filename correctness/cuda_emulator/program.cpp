// One use of CUDA, right or wrong, as a process of its own, so that its tests see how it ends: `program NAME
// [ARGUMENT]`, with the settings of the environment. Exit code 0: ended, values right; 1: values wrong; 2: no
// such name.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "correctness/cuda_emulator/checked.hpp"
#include "correctness/cuda_emulator/lab.hpp"
#include "correctness/cuda_emulator/pipeline.hpp"
#include "correctness/cuda_emulator/uses.hpp"

namespace zp::lab {
namespace {

int pipeline(int bug) { return wrong_elements(static_cast<Bug>(bug)) == 0 ? 0 : 1; }

int different_barriers(int) {
  const TestStream stream;
  const OnDevice<float> memory(64);
  must(two_barriers(memory, stream));
  stream.wait();
  return 0;
}

int endless_barrier(int) {
  const TestStream stream;
  const OnDevice<std::uint32_t> memory(32);
  must(waits_for_a_lane_that_never_comes(memory, stream));
  stream.wait();
  return 0;
}

int outside_mask(int) {
  const TestStream stream;
  const OnDevice<std::uint32_t> memory(32);
  must(lane_outside_its_mask(memory, stream));
  stream.wait();
  return 0;
}

// `behind` numbers behind the end of dynamic shared memory are written.
int shared_overrun(int behind) {
  const TestStream stream;
  const OnDevice<float> from(64), to(64);
  must(fill(from, 1, 64, stream));
  must(reverse(from, to, 32, behind, stream));
  stream.wait();
  return 0;
}

// `more` numbers behind the end of memory of a device are written.
int overrun(int more) {
  const TestStream stream;
  const OnDevice<float> memory(300);
  must(fill(memory, 1, 300 + more, stream));
  stream.wait();
  return 0;
}

// A kernel waits for a host function that never returns.
int deadlock(int) {
  const TestStream first, second;
  const TestEvent done;
  const auto forever = [](void*) { std::this_thread::sleep_for(std::chrono::hours(1)); };
  must(cudaLaunchHostFunc(first, forever, nullptr));
  must(cudaEventRecord(done, first));
  must(cudaStreamWaitEvent(second, done, 0));
  const OnDevice<float> memory(10);
  must(fill(memory, 1, 10, second));
  second.wait();
  return 0;
}

int sum(decltype(block_sums) launch) {
  const TestStream stream;
  const OnDevice<float> from(512), sums(1);
  const OnHost<float> host(1);
  must(fill(from, 1, 512, stream));
  must(launch(from, sums, 512, 1, stream));
  must(cudaMemcpyAsync(host, sums, sizeof(float), cudaMemcpyDeviceToHost, stream));
  stream.wait();
  return host[0] == 512 ? 0 : 1;
}

int product(decltype(multiply) launch) {
  const TestStream stream;
  const OnDevice<float> a(1024), b(1024), c(1024);
  const OnHost<float> host(1024);
  must(fill(a, 1, 1024, stream));
  must(fill(b, 2, 1024, stream));
  must(launch(a, b, c, 32, stream));
  must(cudaMemcpyAsync(host, c, 4096, cudaMemcpyDeviceToHost, stream));
  stream.wait();
  return std::count(host + 0, host + 1024, 64.0F) == 1024 ? 0 : 1;
}

int guarded_sum(int) { return sum(block_sums); }
int unguarded_sum(int) { return sum(block_sums_unguarded); }
int guarded_product(int) { return product(multiply); }
int unguarded_product(int) { return product(multiply_unguarded); }

// More threads, over all blocks, than a process may have stacks.
int many_blocks(int) {
  constexpr long kLength = 160 * 1024;
  const TestStream stream;
  const OnDevice<float> memory(kLength);
  must(fill(memory, 1, kLength, stream));
  stream.wait();
  return 0;
}

int copies(int waits) {
  const TestStream stream;
  const OnDevice<float> from(4096), to(4096);
  must(fill(from, 1, 4096, stream));
  must(copy_piecewise(from, to, 4096, static_cast<Waits>(waits), stream));
  stream.wait();
  return 0;
}

// Memory of a pool is given back on one stream while another still reads it; `waits` 1: after it.
int freed_in_use(int waits) {
  const TestStream owner, reader;
  const TestEvent made, read;
  void* memory = nullptr;
  const OnHost<float> host(1000);
  must(cudaMallocAsync(&memory, 4000, owner));
  must(fill(static_cast<float*>(memory), 1, 1000, owner));
  must(cudaEventRecord(made, owner));
  must(cudaStreamWaitEvent(reader, made, 0));
  must(cudaMemcpyAsync(host, memory, 4000, cudaMemcpyDeviceToHost, reader));
  must(cudaEventRecord(read, reader));
  if (waits == 1) must(cudaStreamWaitEvent(owner, read, 0));
  must(cudaFreeAsync(memory, owner));
  owner.wait();
  reader.wait();
  return 0;
}

// Memory is freed by the host, which waited for its user (`waits` 1) or left that to cudaFree.
int freed_unwaited(int waits) {
  const TestStream stream;
  const OnDevice<float> kept(1000);
  void* memory = nullptr;
  must(cudaMalloc(&memory, 4000));
  must(fill(static_cast<float*>(memory), 1, 1000, stream));
  must(cudaMemcpyAsync(kept, memory, 4000, cudaMemcpyDeviceToDevice, stream));
  if (waits == 1) stream.wait();
  must(cudaFree(memory));
  stream.wait();
  return 0;
}

// Destroying a stream neither waits nor orders; the result is read after it (`waits` 1: after a wait for it).
int read_after_destruction(int waits) {
  const OnDevice<float> memory(1000);
  const OnHost<float> host(1000);
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  must(fill(memory, 1, 1000, stream));
  must(cudaMemcpyAsync(host, memory, 4000, cudaMemcpyDeviceToHost, stream));
  if (waits == 1) must(cudaStreamSynchronize(stream));
  must(cudaStreamDestroy(stream));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return std::count(host + 0, host + 1000, 1.0F) == 1000 ? 0 : 1;
}

// The host reads memory of a device after it waited: 0 itself, 1 in a host function, 2 by a copy, as it
// should.
int host_read(int how) {
  const TestStream stream;
  const OnDevice<float> memory(1000);
  must(fill(memory, 1, 1000, stream));
  stream.wait();
  float value = 0;
  const auto read = [](void* address) {
    *static_cast<volatile float*>(address) = *static_cast<volatile float*>(address);
  };
  if (how == 0) value = *static_cast<volatile float*>(memory + 0);
  if (how == 1) must(cudaLaunchHostFunc(stream, read, memory + 0));
  if (how == 2) must(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
  stream.wait();
  return value == 1 ? 0 : 1;
}

constexpr Use kUses[] = {
    {"pipeline", pipeline},
    {"different_barriers", different_barriers},
    {"endless_barrier", endless_barrier},
    {"outside_mask", outside_mask},
    {"shared_overrun", shared_overrun},
    {"overrun", overrun},
    {"deadlock", deadlock},
    {"guarded_sum", guarded_sum},
    {"unguarded_sum", unguarded_sum},
    {"guarded_product", guarded_product},
    {"unguarded_product", unguarded_product},
    {"many_blocks", many_blocks},
    {"copies", copies},
    {"host_read", host_read},
    {"freed_in_use", freed_in_use},
    {"freed_unwaited", freed_unwaited},
    {"read_after_destruction", read_after_destruction},
};

}  // namespace
}  // namespace zp::lab

int main(int argc, char** argv) { return zp::lab::run_use(zp::lab::kUses, argc, argv); }
