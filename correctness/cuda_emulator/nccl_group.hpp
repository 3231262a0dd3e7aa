// What the entry points of the emulated NCCL share: refusals, live communicators, and the group that a host
// thread has open.
#pragma once

#include <nccl.h>

#include <vector>

#include "correctness/cuda_emulator/nccl_calls.hpp"

namespace zp::emulated {

struct GroupedCall {
  Shared<ncclComm> comm;
  cudaStream_t stream;
  Call call;
};

// Of the calling thread.
struct Group {
  int depth = 0;
  std::vector<GroupedCall> calls;
  std::vector<Shared<ncclComm>> joining;
};
Group& group();

// Says what is wrong, keeps the words for ncclGetLastError, and returns the code.
ncclResult_t refuse_nccl(ncclResult_t result, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Empty, with a refusal, where there is no such communicator.
Shared<ncclComm> alive_comm(ncclComm_t handle, const char* call);

// Returns when all ranks have joined.
ncclResult_t wait_until_joined(ncclComm& comm);

// Puts calls on their stream as one operation.
ncclResult_t enqueue_now(const Shared<ncclComm>& comm, cudaStream_t stream, std::vector<Call> calls);

// Enqueues what the group holds, communicator by communicator, and waits for those that join.
ncclResult_t end_group();

}  // namespace zp::emulated
