// Entry points of the emulated NCCL: communicators, and what is said when a call is refused. Signatures are
// NVIDIA's.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "correctness/cuda_emulator/enqueue.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/handles.hpp"
#include "correctness/cuda_emulator/nccl_group.hpp"

namespace zp::emulated {

namespace {

constexpr int kMostRanks = 128;
constexpr char kIdMark[] = "zp-emulated-nccl-";

thread_local std::array<char, 512> last_text{};
constinit std::atomic<unsigned> ids{0};

class UntilJoined final : public Awaited {
 public:
  explicit UntilJoined(ncclComm& comm) : comm_(comm) {}
  bool reached() override {
    heard_ = comm_.rings->heard(comm_.rank);
    return comm_.rings->complete();
  }
  void sleep(int most_us) override { comm_.rings->listen(comm_.rank, heard_, most_us); }

 private:
  ncclComm& comm_;
  std::uint32_t heard_ = 0;
};

class UntilIdle final : public Awaited {
 public:
  explicit UntilIdle(ncclComm& comm) : comm_(comm) {}
  bool reached() override {
    heard_ = comm_.rings->heard(comm_.rank);
    return comm_.idle();
  }
  void sleep(int most_us) override { comm_.rings->listen(comm_.rank, heard_, most_us); }

 private:
  ncclComm& comm_;
  std::uint32_t heard_ = 0;
};

void wait_until_idle(ncclComm& comm, const char* call) {
  UntilIdle awaited(comm);
  wait_for(awaited, Domain::of_this_thread(), call);
}

}  // namespace

ncclResult_t refuse_nccl(ncclResult_t result, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_text.data(), last_text.size(), format, arguments);
  va_end(arguments);
  note("%s", last_text.data());
  return result;
}

Shared<ncclComm> alive_comm(ncclComm_t handle, const char* call) {
  Shared<ncclComm> comm = handles<ncclComm>().find(handle);
  if (!comm)
    refuse_nccl(ncclInvalidArgument, "%s: a communicator that does not exist or was destroyed", call);
  return comm;
}

namespace {

ncclResult_t refuse_shared_device(ncclComm& comm) {
  const int other = comm.rings->same_device(comm.rank);
  if (other < 0) return ncclSuccess;
  return refuse_nccl(ncclInvalidUsage, "ncclCommInitRank: ranks %d and %d are both on device %d", comm.rank,
                     other, comm.device);
}

}  // namespace

ncclResult_t wait_until_joined(ncclComm& comm) {
  UntilJoined awaited(comm);
  wait_for(awaited, Domain::of_this_thread(), "ncclCommInitRank");
  return refuse_shared_device(comm);
}

namespace {

enum class Blocking { yes, no };

ncclResult_t join(ncclComm_t* handle, int world, const ncclUniqueId& id, int rank, int device,
                  Blocking blocking = Blocking::yes) {
  *handle = nullptr;
  if (world < 1 || world > kMostRanks || rank < 0 || rank >= world) {
    return refuse_nccl(ncclInvalidArgument, "ncclCommInitRank: rank %d of %d", rank, world);
  }
  const std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
  if (!name.starts_with("/" + std::string(kIdMark))) {
    return refuse_nccl(ncclInvalidArgument, "ncclCommInitRank: no id that ncclGetUniqueId made");
  }
  Shared<ncclComm> comm = Shared<ncclComm>::adopt(new ncclComm(world, rank, device));
  const std::string wrong = Rings::join(name, world, rank, device, comm->rings);
  if (!wrong.empty()) return refuse_nccl(ncclInvalidUsage, "ncclCommInitRank: %s", wrong.c_str());
  comm->blocking = blocking == Blocking::yes;
  if (group().depth > 0) {
    group().joining.push_back(comm);
  } else if (comm->blocking) {
    const ncclResult_t result = wait_until_joined(*comm.get());
    if (result != ncclSuccess) return result;
  }
  comm->retain();  // for its handle
  *handle = handles<ncclComm>().add(comm.get());
  return comm->blocking ? ncclSuccess : ncclInProgress;
}

// What a communicator that does not block does when it is asked.
ncclResult_t advance(const Shared<ncclComm>& comm) {
  Domain::of_this_thread().touch();
  if (settings().schedule == Schedule::serial) Domain::of_this_thread().step();
  if (comm->error != ncclSuccess) return comm->error;
  if (!comm->blocking && !comm->joined) {
    if (!comm->rings->complete()) return ncclInProgress;
    comm->joined = true;
    comm->error = refuse_shared_device(*comm.get());
  }
  std::vector<ncclComm::Pending> pending = std::move(comm->pending);
  comm->pending.clear();
  ncclResult_t result = comm->error;
  for (ncclComm::Pending& one : pending) {
    const ncclResult_t enqueued = enqueue_now(comm, one.stream, std::move(one.calls));
    if (enqueued != ncclSuccess) result = comm->error = enqueued;
  }
  return result;
}

}  // namespace

}  // namespace zp::emulated

using namespace zp::emulated;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = settings().nccl_version != 0 ? settings().nccl_version : NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/%s%d-%u-%.0f", kIdMark, static_cast<int>(getpid()),
                ids.fetch_add(1), now_s() * 1e6);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "a CUDA call failed";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "another process exited or there was a network error";
    case ncclInProgress: return "in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return last_text.data(); }

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int world, ncclUniqueId id, int rank) {
  return join(comm, world, id, rank, current_device());
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int world, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const Blocking blocking = config != nullptr && config->blocking == 0 ? Blocking::no : Blocking::yes;
  return join(comm, world, id, rank, current_device(), blocking);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ++group().depth;
  ncclResult_t result = ncclSuccess;
  for (int rank = 0; rank < devices && result == ncclSuccess; ++rank) {
    result = join(&comms[rank], devices, id, rank, list == nullptr ? rank : list[rank]);
  }
  --group().depth;
  const ncclResult_t joined = group().depth == 0 ? end_group() : ncclSuccess;
  return result == ncclSuccess ? joined : result;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  const Shared<ncclComm> comm = alive_comm(handle, "ncclCommFinalize");
  if (!comm) return ncclInvalidArgument;
  wait_until_idle(*comm.get(), "ncclCommFinalize");
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const ncclResult_t result = ncclCommFinalize(handle);
  if (result == ncclSuccess) handles<ncclComm>().take(handle);
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const Shared<ncclComm> comm = alive_comm(handle, "ncclCommAbort");
  if (!comm) return ncclInvalidArgument;
  comm->aborted.store(true);
  comm->rings->wake(comm->rank);
  wait_until_idle(*comm.get(), "ncclCommAbort");
  handles<ncclComm>().take(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const Shared<ncclComm> comm = alive_comm(handle, "ncclCommGetAsyncError");
  if (!comm) return ncclInvalidArgument;
  *error = advance(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  const Shared<ncclComm> comm = alive_comm(handle, "ncclCommCount");
  if (!comm) return ncclInvalidArgument;
  *count = comm->world;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  const Shared<ncclComm> comm = alive_comm(handle, "ncclCommUserRank");
  if (!comm) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  const Shared<ncclComm> comm = alive_comm(handle, "ncclCommCuDevice");
  if (!comm) return ncclInvalidArgument;
  *device = comm->device;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** address, std::size_t bytes) {
  return cudaMalloc(address, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* address) {
  return cudaFree(address) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // extern "C"
