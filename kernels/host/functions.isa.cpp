// The table of one ISA's kernels. A kernel without a definition does not link.
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

// Fused, the product's rounding error 2⁻²⁴ would remain.
bool contracts() {
  const volatile float factor = 1.0F + 0x1p-12F;
  const volatile float rounded = -(1.0F + 0x1p-11F);
  const float a = factor;
  const float c = rounded;
  const float scalar = a * a + c;
  return scalar != 0.0F || first(splat(a) * splat(a) + splat(c)) != 0.0F;
}

template <class... C>
HostFunctions table(const std::variant<C...>*) {
  HostFunctions functions;
  ((static_cast<HostFunction<C>&>(functions).run = static_cast<void (*)(HostContext&, const C&)>(&run)), ...);
  functions.contracts = contracts;
  return functions;
}

}  // namespace

HostFunctions functions() { return table(static_cast<const Call*>(nullptr)); }

}  // namespace zp::kernels::ZP_ISA
