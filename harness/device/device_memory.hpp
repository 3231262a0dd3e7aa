// What a device itself says of its memory, beside whoever counts what was asked of it. Plain numbers.
#pragma once

#include "harness/base/quantities.hpp"

namespace zp {

struct DeviceMemory {
  // A buffer takes a whole number of these from the pool; 0: no such grain explains the pool's numbers.
  Bytes grain;
  Bytes used, used_most;          // of the pool: in use, and the most since the peak was begun anew
  Bytes reserved, reserved_most;  // what the pool holds for use, and the most since it was made
  Bytes free, total;              // of the whole device, whoever uses it
  Bytes pinned;                   // of the host, for messages (FarMemory::pin)
};

// What a buffer takes where memory comes in grains.
constexpr Bytes whole_grains(Bytes bytes, Bytes grain) {
  const int64_t grains = (bytes.n + grain.n - 1) / grain.n;
  return {grains * grain.n};
}

}  // namespace zp
