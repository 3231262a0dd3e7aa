// How entry points reach streams: which handles are alive, what may be enqueued where, and in how many parts.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "correctness/cuda_emulator/schedule.hpp"

// What cudaEvent_t points to.
struct CUevent_st final : zp::emulated::Counted {
  CUevent_st(int device_, unsigned flags_) : device(device_), flags(flags_) {}
  const int device;
  const unsigned flags;
  zp::emulated::Spin held;
  zp::emulated::Shared<zp::emulated::Ticket> last;  // the newest recording
};

namespace zp::emulated {

// The device of the calling host thread.
int current_device();

// The stream behind a handle, kept alive by what is returned; empty, with a refusal, where there is none. The
// default stream is none: nothing here may use it.
Shared<Stream> alive(cudaStream_t stream, const char* call);
Shared<CUevent_st> alive(cudaEvent_t event, const char* call);

// Takes the operation over, also where it is refused.
cudaError_t enqueue(cudaStream_t stream, Operation* operation);

// Kernels and events want the stream's device to be the current one.
cudaError_t must_be_current(cudaStream_t stream, const char* call);

// Refuses calls within a host function.
cudaError_t allowed_here(const char* call);

// Every stream of `device` that is alive.
std::deque<Shared<Stream>> streams_of(int device);

// Waits for what was enqueued so far. It orders what the host does later only where `ordered` says so.
enum class Ordered { no, yes };
void wait_for_stream(Stream& stream, Ordered ordered, const char* call);
void wait_for_device(int device, Ordered ordered, const char* call);

// How much of an operation on `whole` things is done at once: less than all where others may come between.
std::uint64_t part_of(std::uint64_t whole);

}  // namespace zp::emulated
