// Entry points of the emulated NCCL: calls that move data, and groups of them. Signatures are NVIDIA's.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "correctness/cuda_emulator/enqueue.hpp"
#include "correctness/cuda_emulator/memory.hpp"
#include "correctness/cuda_emulator/nccl_group.hpp"

namespace zp::emulated {

namespace {

bool is_pair(CallKind kind) { return kind == CallKind::send || kind == CallKind::receive; }

bool reduces(CallKind kind) {
  return kind == CallKind::all_reduce || kind == CallKind::reduce_scatter || kind == CallKind::reduce;
}

// NCCL has the devices of ranks that share a process reach into each other's memory, unless it is told not
// to.
bool is_reached_by_others(ncclComm& comm) {
  const char* const disabled = std::getenv("NCCL_P2P_DIRECT_DISABLE");
  const bool direct = disabled == nullptr || std::string_view(disabled) == "0";
  return direct && comm.rings->shares_process(comm.rank);
}

// Memory must be of the communicator's device, or pinned, all of it. A pool's is of its device alone: access
// for others is not emulated.
ncclResult_t check_memory(ncclComm& comm, const void* address, std::size_t bytes, const char* name) {
  const Found found = find_memory(address, bytes);
  const bool elsewhere = found.allocation.home == Home::device && found.allocation.device != comm.device;
  if (found.allocation.pool != nullptr && is_reached_by_others(comm)) {
    return refuse_nccl(
        ncclInvalidArgument,
        "%s, rank %d of %d: memory of a pool that the devices of other ranks do not reach: set "
        "NCCL_P2P_DIRECT_DISABLE=1",
        name, comm.rank, comm.world);
  }
  if (found.allocation.home != Home::pageable && found.whole && !elsewhere) return ncclSuccess;
  return refuse_nccl(ncclInvalidArgument, "%s, rank %d of %d: %zu bytes at %p are no memory of device %d",
                     name, comm.rank, comm.world, bytes, address, comm.device);
}

// How many parts of `count` elements a call reads and writes on this rank.
struct Extent {
  std::size_t reads = 1, writes = 1;
};

Extent extent_of(const ncclComm& comm, const Call& call) {
  const auto world = static_cast<std::size_t>(comm.world);
  const bool root = comm.rank == call.what.root;
  switch (call.what.kind) {
    case CallKind::all_reduce: return {1, 1};
    case CallKind::reduce_scatter: return {world, 1};
    case CallKind::all_gather: return {1, world};
    case CallKind::broadcast: return {root ? 1U : 0U, 1};
    case CallKind::reduce: return {1, root ? 1U : 0U};
    case CallKind::send: return {1, 0};
    case CallKind::receive: return {0, 1};
  }
  return {};
}

ncclResult_t check(ncclComm& comm, const Call& call, cudaStream_t stream) {
  const char* const name = name_of(call.what.kind);
  const int other = is_pair(call.what.kind) ? call.peer : call.what.root;
  if (size_of(call.what.type) == 0 || other < 0 || other >= comm.world) {
    return refuse_nccl(ncclInvalidArgument, "%s, rank %d of %d: type %d, root or peer %d", name, comm.rank,
                       comm.world, static_cast<int>(call.what.type), other);
  }
  if (reduces(call.what.kind) && !can_reduce(call.what.type, call.what.reduction)) {
    return refuse_nccl(ncclInvalidArgument, "%s: the %s of %s is not emulated", name,
                       name_of(call.what.reduction), name_of(call.what.type));
  }
  const Shared<Stream> on = alive(stream, name);
  if (!on) return ncclInvalidArgument;
  if (on->device() != comm.device) {
    return refuse_nccl(ncclInvalidArgument, "%s: a stream of device %d for a rank on device %d", name,
                       on->device(), comm.device);
  }
  const std::size_t bytes = call.what.count * size_of(call.what.type);
  const Extent extent = extent_of(comm, call);
  ncclResult_t result = ncclSuccess;
  if (extent.reads > 0) result = check_memory(comm, call.from, extent.reads * bytes, name);
  if (result == ncclSuccess && extent.writes > 0)
    result = check_memory(comm, call.to, extent.writes * bytes, name);
  return result;
}

// A communicator that does not block comes to it when its state is asked for.
ncclResult_t enqueue_calls(const Shared<ncclComm>& comm, cudaStream_t stream, std::vector<Call> calls) {
  if (comm->blocking) return enqueue_now(comm, stream, std::move(calls));
  comm->pending.push_back({stream, std::move(calls)});
  return ncclInProgress;
}

ncclResult_t issue(ncclComm_t handle, cudaStream_t stream, Call call) {
  const Shared<ncclComm> comm = alive_comm(handle, name_of(call.what.kind));
  if (!comm) return ncclInvalidArgument;
  if (!comm->pending.empty() || (!comm->blocking && !comm->joined)) {
    return refuse_nccl(ncclInvalidUsage,
                       "%s, rank %d of %d: the communicator is still busy with another call",
                       name_of(call.what.kind), comm->rank, comm->world);
  }
  if (call.what.count == 0) return ncclSuccess;
  const ncclResult_t result = check(*comm.get(), call, stream);
  if (result != ncclSuccess) return result;
  if (!is_pair(call.what.kind)) call.what.sequence = comm->collectives.fetch_add(1);
  if (group().depth > 0) {
    group().calls.push_back({comm, stream, call});
    return ncclSuccess;
  }
  return enqueue_calls(comm, stream, {call});
}

Call made(CallKind kind, const void* from, void* to, std::size_t count, ncclDataType_t type) {
  const Description what{
      .kind = kind, .type = type, .reduction = ncclSum, .root = 0, .sequence = 0, .count = count};
  return {what, static_cast<const unsigned char*>(from), static_cast<unsigned char*>(to), -1};
}

}  // namespace

ncclResult_t enqueue_now(const Shared<ncclComm>& comm, cudaStream_t stream, std::vector<Call> calls) {
  const Settings& now = settings();
  const bool fails = now.nccl_fault != NcclFault::none && comm->rank == now.nccl_fault_rank &&
                     comm->issued.load() == static_cast<std::uint64_t>(now.nccl_fault_at);
  while (fails && now.nccl_fault == NcclFault::stop) pause();
  if (fails && now.nccl_fault == NcclFault::error) comm->error = ncclRemoteError;
  const auto ends = fails ? Calls::Ends::never : Calls::Ends::by_itself;
  const cudaError_t code = enqueue(stream, new Calls(comm, std::move(calls), ends));
  return code == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

Group& group() {
  static thread_local Group mine;
  return mine;
}

// Calls of one communicator become one operation.
ncclResult_t end_group() {
  std::vector<GroupedCall> calls = std::move(group().calls);
  const std::vector<Shared<ncclComm>> joining = std::move(group().joining);
  group().calls.clear();
  group().joining.clear();
  ncclResult_t result = ncclSuccess;
  for (const Shared<ncclComm>& comm : joining) {
    const ncclResult_t joined = wait_until_joined(*comm.get());
    if (joined != ncclSuccess) result = joined;
  }
  while (!calls.empty()) {
    const GroupedCall first = calls.front();
    std::vector<Call> together;
    std::vector<GroupedCall> others;
    for (const GroupedCall& grouped : calls) {
      if (grouped.comm.get() != first.comm.get()) {
        others.push_back(grouped);
      } else if (grouped.stream != first.stream) {
        return refuse_nccl(ncclInvalidUsage, "ncclGroupEnd: one communicator on two streams is not emulated");
      } else {
        together.push_back(grouped.call);
      }
    }
    const ncclResult_t enqueued = enqueue_calls(first.comm, first.stream, std::move(together));
    if (enqueued != ncclSuccess) result = enqueued;
    calls = std::move(others);
  }
  return result;
}

}  // namespace zp::emulated

using namespace zp::emulated;

extern "C" {

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return refuse_nccl(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return --group().depth == 0 ? end_group() : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  Call call = made(CallKind::all_reduce, from, to, count, type);
  call.what.reduction = reduction;
  return issue(comm, stream, call);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  Call call = made(CallKind::reduce_scatter, from, to, count, type);
  call.what.reduction = reduction;
  return issue(comm, stream, call);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream, made(CallKind::all_gather, from, to, count, type));
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  Call call = made(CallKind::broadcast, from, to, count, type);
  call.what.root = root;
  return issue(comm, stream, call);
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t comm, cudaStream_t stream) {
  Call call = made(CallKind::reduce, from, to, count, type);
  call.what.reduction = reduction;
  call.what.root = root;
  return issue(comm, stream, call);
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Call call = made(CallKind::send, from, nullptr, count, type);
  call.peer = peer;
  return issue(comm, stream, call);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Call call = made(CallKind::receive, nullptr, to, count, type);
  call.peer = peer;
  return issue(comm, stream, call);
}

}  // extern "C"
