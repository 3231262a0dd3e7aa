// NCCL, free of its header: what is here of it, and messages by it.
#pragma once

#include <memory>
#include <string>

#include "harness/transport/carrier.hpp"

namespace zp {

class CudaDevice;
class CudaStream;

// "2.28.9". Throws (unavailable) where it is not here, with the loader's own words.
std::string nccl_version();

// This rank's end of a communicator of all ranks of `control`, over which they meet; collective. Work is put
// on `stream`, of `device`. Every wait has the deadline. Throws (unavailable) as nccl_version() does, and
// (cuda, timeout) where ranks do not come together; NCCL refuses two ranks on one GPU. All must outlive the
// carrier.
std::unique_ptr<Carrier> make_nccl_carrier(CudaDevice& device, CudaStream& stream, Control& control,
                                           double timeout_s);

}  // namespace zp
