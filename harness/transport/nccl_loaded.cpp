// NCCL as a shared library that is opened when it is asked for, so that everything else runs without it.
#include "harness/base/shared_library.hpp"
#include "harness/transport/nccl_functions.hpp"

namespace zp {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";

}  // namespace

NcclFunctions open_nccl(const std::string& name) {
  const SharedLibrary library(name, "NCCL");
  NcclFunctions nccl;
  library.find("ncclGetVersion", nccl.get_version);
  library.find("ncclGetUniqueId", nccl.get_unique_id);
  library.find("ncclGetErrorString", nccl.get_error_string);
  library.find("ncclGetLastError", nccl.get_last_error);
  library.find("ncclCommInitRankConfig", nccl.init_rank);
  library.find("ncclCommFinalize", nccl.finalize);
  library.find("ncclCommDestroy", nccl.destroy);
  library.find("ncclCommAbort", nccl.abort);
  library.find("ncclCommGetAsyncError", nccl.get_async_error);
  library.find("ncclGroupStart", nccl.group_start);
  library.find("ncclGroupEnd", nccl.group_end);
  library.find("ncclSend", nccl.send);
  library.find("ncclRecv", nccl.receive);
  library.find("ncclReduceScatter", nccl.reduce_scatter);
  library.find("ncclAllReduce", nccl.all_reduce);
  library.find("ncclAllGather", nccl.all_gather);
  return nccl;
}

const NcclFunctions& nccl_functions() {
  static const NcclFunctions functions = open_nccl(kLibrary);
  return functions;
}

}  // namespace zp
