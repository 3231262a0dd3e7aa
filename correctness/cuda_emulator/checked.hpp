// CUDA as the emulator's tests use it: a failed call ends the program, memory and streams end with their
// owners.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace zp::lab {

struct Spot {
  const char* file = __builtin_FILE();
  int line = __builtin_LINE();
};

inline void must(cudaError_t code, Spot spot = {}) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: %s\n", spot.file, spot.line, cudaGetErrorString(code));
  std::exit(3);
}

class TestStream {
 public:
  TestStream() { must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  ~TestStream() { must(cudaStreamDestroy(stream_)); }
  operator cudaStream_t() const { return stream_; }
  void wait() const { must(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class TestEvent {
 public:
  TestEvent() { must(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  ~TestEvent() { must(cudaEventDestroy(event_)); }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

enum class On { device, host };

template <class T, On kOn>
class TestMemory {
 public:
  explicit TestMemory(std::size_t length) {
    void* address = nullptr;
    must(kOn == On::device ? cudaMalloc(&address, length * sizeof(T))
                           : cudaMallocHost(&address, length * sizeof(T)));
    data_ = static_cast<T*>(address);
  }
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;
  ~TestMemory() { must(kOn == On::device ? cudaFree(data_) : cudaFreeHost(data_)); }
  operator T*() const { return data_; }

 private:
  T* data_ = nullptr;
};

template <class T>
using OnDevice = TestMemory<T, On::device>;
template <class T>
using OnHost = TestMemory<T, On::host>;

}  // namespace zp::lab
