// What a host kernel is given, and the tables of kernels, one per ISA: for every alternative of Call one
// function.
#pragma once

#include <variant>

#include "kernels/host/pool.hpp"
#include "kernels/kernels.hpp"

namespace zp::kernels {

struct HostContext {
  Pool& pool;
  // host_workspace() bytes, shared by all workers; no kernel expects anything in it.
  float* workspace = nullptr;
  int64_t workspace_floats = 0;
  HostOptions options;
};

template <class C>
struct HostFunction {
  void (*run)(HostContext& context, const C& call) = nullptr;
};

template <class Variant>
struct HostFunctionsOf;
template <class... C>
struct HostFunctionsOf<std::variant<C...>> : HostFunction<C>... {
  // Whether the compiler fused a product and a sum that were written apart in files of this ISA.
  bool (*contracts)() = nullptr;
};
using HostFunctions = HostFunctionsOf<Call>;

#if defined(__x86_64__)
namespace avx512 {
HostFunctions functions();
}
namespace avx2 {
HostFunctions functions();
}
#endif
namespace portable {
HostFunctions functions();
}

}  // namespace zp::kernels
