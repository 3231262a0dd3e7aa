// Faults, refusals and CUDA's error functions. See fault.hpp.
#include "correctness/cuda_emulator/fault.hpp"

#include <cuda_runtime_api.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>

#include "correctness/cuda_emulator/settings.hpp"

namespace zp::emulated {

namespace {

constinit thread_local cudaError_t last_error = cudaSuccess;

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};

constexpr std::array kErrors{
    ErrorText{cudaSuccess, "cudaSuccess", "no error"},
    ErrorText{cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    ErrorText{cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    ErrorText{cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
              "invalid configuration argument"},
    ErrorText{cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
              "invalid copy direction for memcpy"},
    ErrorText{cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    ErrorText{cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    ErrorText{cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    ErrorText{cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
              "CUDA driver version is insufficient for CUDA runtime version"},
    ErrorText{cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    ErrorText{cudaErrorStubLibrary, "cudaErrorStubLibrary", "CUDA driver is a stub library"},
    ErrorText{cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    ErrorText{cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    ErrorText{cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};

// One write, so that lines of several threads do not mix; and no write(), which the thread sanitizer watches.
void say(const char* format, va_list arguments) {
  std::array<char, 1024> line{};
  int length = std::snprintf(line.data(), line.size(), "emulated CUDA: ");
  length +=
      std::vsnprintf(line.data() + length, line.size() - static_cast<size_t>(length) - 1, format, arguments);
  if (length > static_cast<int>(line.size()) - 2) length = static_cast<int>(line.size()) - 2;
  line[static_cast<size_t>(length)] = '\n';
  syscall(SYS_write, STDERR_FILENO, line.data(), static_cast<size_t>(length) + 1);
}

const ErrorText* find(cudaError_t code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

}  // namespace

void fault(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  _exit(kFaultExit);
}

void note(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

cudaError_t refuse(cudaError_t code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  return failed(code);
}

cudaError_t failed(cudaError_t code) {
  last_error = code;
  return code;
}

}  // namespace zp::emulated

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t code = zp::emulated::last_error;
  zp::emulated::last_error = cudaSuccess;
  return code;
}

cudaError_t cudaPeekAtLastError() { return zp::emulated::last_error; }

const char* cudaGetErrorName(cudaError_t code) {
  const auto* error = zp::emulated::find(code);
  return error == nullptr ? "unrecognized error code" : error->name;
}

const char* cudaGetErrorString(cudaError_t code) {
  const auto* error = zp::emulated::find(code);
  return error == nullptr ? "unrecognized error code" : error->text;
}

}  // extern "C"
