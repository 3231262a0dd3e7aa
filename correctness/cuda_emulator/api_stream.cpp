// Entry points: streams, events and host functions.
#include <cuda_runtime_api.h>

#include "correctness/cuda_emulator/arena.hpp"
#include "correctness/cuda_emulator/enqueue.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/handles.hpp"
#include "correctness/cuda_emulator/memory.hpp"
#include "correctness/cuda_emulator/waits.hpp"

namespace zp::emulated {

namespace {

constexpr int kNapUs = 20000;

class Record final : public Operation {
 public:
  explicit Record(Shared<Ticket> ticket) : Operation("cudaEventRecord"), ticket_(std::move(ticket)) {}
  bool step() override {
    ticket_->punch();
    return true;
  }
  bool touches_memory() const override { return false; }

 private:
  Shared<Ticket> ticket_;
};

// Waits for the recording that was the newest when the wait was enqueued.
class WaitEvent final : public Operation {
 public:
  explicit WaitEvent(Shared<Ticket> ticket) : Operation("cudaStreamWaitEvent"), ticket_(std::move(ticket)) {}
  bool ready() override { return ticket_->done(); }
  void await() override { ticket_->sleep(kNapUs); }
  bool step() override {
    ticket_->acquire();
    return true;
  }
  bool touches_memory() const override { return false; }

 private:
  Shared<Ticket> ticket_;
};

class HostFunction final : public Operation {
 public:
  HostFunction(cudaHostFn_t function, void* argument)
      : Operation("cudaLaunchHostFunc"), function_(function), argument_(argument) {}
  bool step() override {
    in_host_function() = true;
    function_(argument_);
    in_host_function() = false;
    return true;
  }
  bool touches_memory() const override { return false; }

 private:
  cudaHostFn_t function_;
  void* argument_;
};

class UntilPunched final : public Awaited {
 public:
  explicit UntilPunched(Ticket& ticket) : ticket_(ticket) {}
  bool reached() override { return ticket_.done(); }
  void sleep(int most_us) override { ticket_.sleep(most_us); }

 private:
  Ticket& ticket_;
};

void wait_for_record(Ticket& ticket, const char* call) {
  UntilPunched awaited(ticket);
  wait_for(awaited, Domain::of_this_thread(), call);
}

Shared<Ticket> newest(CUevent_st& event) {
  const Held held(event.held);
  return event.last;
}

// A query is where a serial schedule may let something run: a loop of queries must end.
void let_run(Domain& domain) {
  domain.touch();
  if (settings().schedule == Schedule::serial) domain.step();
}

cudaError_t create(cudaStream_t* stream, Stream::Kind kind, const char* call) {
  const cudaError_t code = allowed_here(call);
  if (code != cudaSuccess) return code;
  *stream = handles<CUstream_st>().add(Domain::of_this_thread().add(current_device(), kind));
  return cudaSuccess;
}

Stream::Kind kind_of(unsigned flags) {
  return (flags & cudaStreamNonBlocking) != 0 ? Stream::Kind::non_blocking : Stream::Kind::blocking;
}

}  // namespace

}  // namespace zp::emulated

using namespace zp::emulated;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create(stream, Stream::Kind::blocking, "cudaStreamCreate");
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create(stream, kind_of(flags), "cudaStreamCreateWithFlags");
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return create(stream, kind_of(flags), "cudaStreamCreateWithPriority");
}

// Returns at once, as CUDA does; what was enqueued runs to its end.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  cudaError_t code = allowed_here("cudaStreamDestroy");
  if (code != cudaSuccess) return code;
  if (!alive(handle, "cudaStreamDestroy")) return cudaErrorInvalidResourceHandle;
  const Shared<CUstream_st> stream = handles<CUstream_st>().take(handle);
  if (stream) stream->close();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const cudaError_t code = allowed_here("cudaStreamSynchronize");
  if (code != cudaSuccess) return code;
  const Shared<Stream> stream = alive(handle, "cudaStreamSynchronize");
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (host_wait_left_out(*stream.get())) return cudaSuccess;
  wait_for_stream(*stream.get(), Ordered::yes, "cudaStreamSynchronize");
  trim_pools_of(stream->device());
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const cudaError_t code = allowed_here("cudaStreamQuery");
  if (code != cudaSuccess) return code;
  const Shared<Stream> stream = alive(handle, "cudaStreamQuery");
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (host_wait_left_out(*stream.get())) return cudaSuccess;
  if (waits_are_watched()) wait_for_stream(*stream.get(), Ordered::no, "cudaStreamQuery");
  let_run(stream->domain());
  if (!stream->idle()) return cudaErrorNotReady;
  stream->acquire();
  close_arena();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned flags) {
  const Shared<CUevent_st> event = alive(handle, "cudaStreamWaitEvent");
  if (!event) return cudaErrorInvalidResourceHandle;
  if (flags != cudaEventWaitDefault)
    return refuse(cudaErrorNotSupported, "cudaStreamWaitEvent: flags %u", flags);
  Shared<Ticket> ticket = newest(*event.get());
  if (!ticket) {  // never recorded: nothing to wait for, if the stream is one
    return alive(stream, "cudaStreamWaitEvent") ? cudaSuccess : cudaErrorInvalidResourceHandle;
  }
  const Shared<Stream> waiting = alive(stream, "cudaStreamWaitEvent");
  if (!waiting) return cudaErrorInvalidResourceHandle;
  if (settings().stream_waits == 0 || stream_wait_left_out(*waiting.get(), *ticket.get())) return cudaSuccess;
  return enqueue(stream, new WaitEvent(std::move(ticket)));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  if (function == nullptr) return refuse(cudaErrorInvalidValue, "cudaLaunchHostFunc: no function");
  return enqueue(stream, new HostFunction(function, argument));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if ((flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0) {
    return refuse(cudaErrorNotSupported, "cudaEventCreateWithFlags: flags %u", flags);
  }
  *event = handles<CUevent_st>().add(new CUevent_st(current_device(), flags));
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  if (!alive(handle, "cudaEventDestroy")) return cudaErrorInvalidResourceHandle;
  handles<CUevent_st>().take(handle);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  const cudaError_t code = allowed_here("cudaEventRecord");
  if (code != cudaSuccess) return code;
  const Shared<CUevent_st> event = alive(handle, "cudaEventRecord");
  const Shared<Stream> stream = alive(stream_handle, "cudaEventRecord");
  if (!event || !stream) return cudaErrorInvalidResourceHandle;
  if (event->device != stream->device()) {
    return refuse(cudaErrorInvalidResourceHandle,
                  "cudaEventRecord: an event of device %d in a stream of device %d", event->device,
                  stream->device());
  }
  const Shared<Ticket> ticket = Shared<Ticket>::adopt(new Ticket);
  {
    const Held held(event->held);
    event->last = ticket;
  }
  note_record(*stream.get(), *ticket.get());
  return enqueue(stream_handle, new Record(ticket));
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const Shared<CUevent_st> event = alive(handle, "cudaEventQuery");
  if (!event) return cudaErrorInvalidResourceHandle;
  const Shared<Ticket> ticket = newest(*event.get());
  if (!ticket) return cudaSuccess;
  if (host_wait_left_out(*ticket.get())) return cudaSuccess;
  if (waits_are_watched()) wait_for_record(*ticket.get(), "cudaEventQuery");
  let_run(Domain::of_this_thread());
  if (!ticket->done()) return cudaErrorNotReady;
  ticket->acquire();
  close_arena();
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const cudaError_t code = allowed_here("cudaEventSynchronize");
  if (code != cudaSuccess) return code;
  const Shared<CUevent_st> event = alive(handle, "cudaEventSynchronize");
  if (!event) return cudaErrorInvalidResourceHandle;
  const Shared<Ticket> ticket = newest(*event.get());
  if (!ticket || host_wait_left_out(*ticket.get())) return cudaSuccess;
  wait_for_record(*ticket.get(), "cudaEventSynchronize");
  ticket->acquire();
  trim_pools_of(event->device);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from_handle, cudaEvent_t to_handle) {
  const Shared<CUevent_st> from = alive(from_handle, "cudaEventElapsedTime");
  const Shared<CUevent_st> to = alive(to_handle, "cudaEventElapsedTime");
  if (!from || !to) return cudaErrorInvalidResourceHandle;
  const Shared<Ticket> began = newest(*from.get());
  const Shared<Ticket> ended = newest(*to.get());
  if (!began || !ended || ((from->flags | to->flags) & cudaEventDisableTiming) != 0) {
    return refuse(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime: an event without a time");
  }
  if (!began->done() || !ended->done()) return failed(cudaErrorNotReady);
  *milliseconds = static_cast<float>((ended->time_s() - began->time_s()) * 1e3);
  return cudaSuccess;
}

}  // extern "C"
