// NCCL as a shared library that is opened when it is asked for, so that everything else runs without it.
#include <dlfcn.h>

#include "harness/transport/nccl_functions.hpp"

namespace zp {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) fail(Exit::unavailable, "NCCL: " + std::string(dlerror()));
}

}  // namespace

NcclFunctions open_nccl(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(Exit::unavailable, "NCCL: " + std::string(dlerror()));
  NcclFunctions nccl;
  find(library, "ncclGetVersion", nccl.get_version);
  find(library, "ncclGetUniqueId", nccl.get_unique_id);
  find(library, "ncclGetErrorString", nccl.get_error_string);
  find(library, "ncclGetLastError", nccl.get_last_error);
  find(library, "ncclCommInitRankConfig", nccl.init_rank);
  find(library, "ncclCommFinalize", nccl.finalize);
  find(library, "ncclCommDestroy", nccl.destroy);
  find(library, "ncclCommAbort", nccl.abort);
  find(library, "ncclCommGetAsyncError", nccl.get_async_error);
  find(library, "ncclGroupStart", nccl.group_start);
  find(library, "ncclGroupEnd", nccl.group_end);
  find(library, "ncclSend", nccl.send);
  find(library, "ncclRecv", nccl.receive);
  find(library, "ncclReduceScatter", nccl.reduce_scatter);
  find(library, "ncclAllReduce", nccl.all_reduce);
  find(library, "ncclAllGather", nccl.all_gather);
  return nccl;
}

const NcclFunctions& nccl_functions() {
  static const NcclFunctions functions = open_nccl(kLibrary);
  return functions;
}

}  // namespace zp
