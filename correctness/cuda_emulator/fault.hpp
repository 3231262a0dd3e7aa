// What is said where CUDA is used wrongly. Nothing falls back: a broken rule ends the process, a refused call
// returns CUDA's code, and both say on standard error which rule it was.
#pragma once

#include <driver_types.h>

namespace zp::emulated {

// Says what is wrong and ends the process with kFaultExit: for what has no error code, such as threads that
// wait at different barriers.
[[noreturn]] void fault(const char* format, ...) __attribute__((format(printf, 1, 2)));

void note(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Says what is wrong, keeps the code for cudaGetLastError, and returns it.
cudaError_t refuse(cudaError_t code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Keeps the code for cudaGetLastError without a word: for what a right program may meet (no memory left).
cudaError_t failed(cudaError_t code);

}  // namespace zp::emulated
