// Of a build that had no header of NCCL.
#include "harness/transport/nccl.hpp"

namespace zp {
namespace {

[[noreturn]] void refuse() {
  fail(Exit::unavailable, "NCCL: zeroproof was built where its header, nccl.h, was not found");
}

}  // namespace

std::string nccl_version() { refuse(); }

std::unique_ptr<Carrier> make_nccl_carrier(CudaDevice&, CudaStream&, Control&, double) { refuse(); }

}  // namespace zp
