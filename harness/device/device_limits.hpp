// What a device says of its own speed and size, and of the other devices that it reaches. Plain numbers; 0
// where it does not say.
#pragma once

#include <vector>

#include "harness/base/quantities.hpp"

namespace zp {

struct DeviceLimits {
  int processors = 0;
  int clock_khz = 0, memory_clock_khz = 0;  // at most
  int memory_bus_bits = 0;
  Bytes l2, shared_of_block;
};

// Whether one device reads and writes another's memory by itself, and how its link stands in order of speed
// (0: first).
struct PeerAccess {
  bool there = false;
  int order = 0;
};

}  // namespace zp
