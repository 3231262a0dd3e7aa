// Handles, and the way into a stream's queue. See enqueue.hpp.
#include "correctness/cuda_emulator/enqueue.hpp"

#include <map>

#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/handles.hpp"
#include "correctness/cuda_emulator/waits.hpp"

namespace zp::emulated {

namespace {

constexpr std::uint64_t kParts = 3;

class UntilFinished final : public Awaited {
 public:
  explicit UntilFinished(Stream& stream) : stream_(stream), count_(stream.pushed()) {}
  bool reached() override { return stream_.finished(count_); }
  void sleep(int most_us) override { stream_.sleep_until_more_is_finished(most_us); }

 private:
  Stream& stream_;
  const std::uint32_t count_;
};

}  // namespace

Shared<Stream> alive(cudaStream_t stream, const char* call) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    refuse(cudaErrorInvalidResourceHandle, "%s: the default stream is not used here", call);
    return {};
  }
  Shared<CUstream_st> found = handles<CUstream_st>().find(stream);
  if (!found) {
    refuse(cudaErrorInvalidResourceHandle, "%s: a stream that does not exist or was destroyed", call);
    return {};
  }
  return Shared<Stream>::of(found.get());
}

Shared<CUevent_st> alive(cudaEvent_t event, const char* call) {
  Shared<CUevent_st> found = handles<CUevent_st>().find(event);
  if (!found) {
    refuse(cudaErrorInvalidResourceHandle, "%s: an event that does not exist or was destroyed", call);
  }
  return found;
}

cudaError_t allowed_here(const char* call) {
  if (!in_host_function()) return cudaSuccess;
  return refuse(cudaErrorNotPermitted, "%s: a host function may call nothing of CUDA", call);
}

cudaError_t enqueue(cudaStream_t handle, Operation* operation) {
  cudaError_t code = allowed_here(operation->name());
  Shared<Stream> stream;
  if (code == cudaSuccess) {
    stream = alive(handle, operation->name());
    if (!stream) code = cudaErrorInvalidResourceHandle;
  }
  if (code != cudaSuccess) {
    delete operation;
    return code;
  }
  if (operation->touches_memory()) note_work(*stream.get());
  stream->push(operation);
  stream->domain().touch();
  if (settings().schedule == Schedule::serial) stream->domain().sometimes_step();
  return cudaSuccess;
}

cudaError_t must_be_current(cudaStream_t handle, const char* call) {
  const Shared<Stream> stream = alive(handle, call);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->device() == current_device()) return cudaSuccess;
  return refuse(cudaErrorInvalidResourceHandle, "%s: a stream of device %d while device %d is current", call,
                stream->device(), current_device());
}

std::deque<Shared<Stream>> streams_of(int device) {
  std::deque<Shared<Stream>> streams;
  handles<CUstream_st>().each([&](CUstream_st* stream) {
    if (stream->device() == device) streams.push_back(Shared<Stream>::of(stream));
  });
  return streams;
}

void wait_for_stream(Stream& stream, Ordered ordered, const char* call) {
  UntilFinished awaited(stream);
  wait_for(awaited, stream.domain(), call);
  if (ordered == Ordered::yes) stream.acquire();
}

void wait_for_device(int device, Ordered ordered, const char* call) {
  for (const Shared<Stream>& stream : streams_of(device)) wait_for_stream(*stream.get(), ordered, call);
}

std::uint64_t part_of(std::uint64_t whole) {
  const bool at_once = settings().schedule == Schedule::free_running && settings().delay_us == 0;
  return at_once ? whole : (whole + kParts - 1) / kParts;
}

}  // namespace zp::emulated
