// In the place of vendor_table.cpp where cuBLASLt's header was not found: there is no vendor arithmetic.
#include "kernels/cuda/vendor_table.hpp"

#include "harness/base/check.hpp"

namespace zp::kernels {
namespace {

[[noreturn]] void refuse() {
  fail(Exit::unavailable, "--math vendor: cublasLt.h was not found when this zeroproof was built");
}

}  // namespace

Bytes vendor_workspace(const VendorOptions&) { refuse(); }

std::unique_ptr<VendorTable> make_vendor_table(std::unique_ptr<Table>, Device&, const VendorOptions&) {
  refuse();
}

std::string vendor_library() { refuse(); }

}  // namespace zp::kernels
