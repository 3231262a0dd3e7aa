// The NCCL that this code is linked to: the emulated one.
#include "harness/transport/nccl_functions.hpp"

namespace zp {

const NcclFunctions& nccl_functions() {
  static constexpr NcclFunctions kLinked{
      .get_version = ncclGetVersion,
      .get_unique_id = ncclGetUniqueId,
      .get_error_string = ncclGetErrorString,
      .get_last_error = ncclGetLastError,
      .init_rank = ncclCommInitRankConfig,
      .finalize = ncclCommFinalize,
      .destroy = ncclCommDestroy,
      .abort = ncclCommAbort,
      .get_async_error = ncclCommGetAsyncError,
      .group_start = ncclGroupStart,
      .group_end = ncclGroupEnd,
      .send = ncclSend,
      .receive = ncclRecv,
      .reduce_scatter = ncclReduceScatter,
      .all_reduce = ncclAllReduce,
      .all_gather = ncclAllGather,
  };
  return kLinked;
}

}  // namespace zp
