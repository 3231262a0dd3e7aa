// The functions of NCCL that are called here, wherever they come from: a library that is opened when it is
// asked for, or one that this code was linked to.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "harness/device/cuda_device.hpp"
#include "harness/transport/carrier.hpp"

namespace zp {

struct NcclFunctions {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
};

// Those of a shared library, which stays open. Throws (unavailable), with the loader's own words, where it is
// not here or lacks one of them.
NcclFunctions open_nccl(const std::string& library);

// Those of this build. Throws (unavailable) as open_nccl() does.
const NcclFunctions& nccl_functions();

// Throws (unavailable) where the library cannot serve what this code was compiled for.
int checked_version(const NcclFunctions& nccl);

std::unique_ptr<Carrier> make_nccl_carrier(const NcclFunctions& nccl, CudaDevice& device, CudaStream& stream,
                                           Control& control, double timeout_s);

}  // namespace zp
