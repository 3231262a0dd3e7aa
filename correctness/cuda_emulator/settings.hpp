// How the emulated CUDA runtime behaves: which schedule, which seed, how many devices of what size. Read once
// from the environment; a test may set it anew while no stream exists.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zp::emulated {

enum class Schedule {
  free_running,  // streams run as the system lets them, with seeded delays: not to be repeated exactly
  serial,        // one operation at a time, chosen by a seed: the same seed gives the same run
};

// What becomes of the operation of a communicator that a rank is told to fail at.
enum class NcclFault {
  none,
  error,  // it never ends, and the communicator says so
  stall,  // it never ends
  stop,   // the host thread stops for good before it
};

// The name in brackets is the environment variable, after ZP_EMULATED_CUDA_.
struct Settings {
  Schedule schedule = Schedule::free_running;  // [SCHEDULE] free, serial
  std::uint64_t seed = 1;                      // [SEED] 0: threads, blocks and waits in their natural order
  int devices = 8;                             // [DEVICES]
  int capability = 80;  // [CAPABILITY] to compute, as 10·major + minor: what a device says, not what it can
  int driver = 0;       // [DRIVER] version that it says, as CUDA numbers them; 0: that of its headers
  std::size_t memory_bytes = std::size_t{1} << 30;  // [MEMORY_MB] of each device
  int delay_us = 0;                                 // [DELAY_US] longest usual sleep before an operation
  int deadline_s = 120;  // [DEADLINE_S] a host wait in which nothing moves ends the process
  // [RACE_CHECK] 1: each CUDA thread is one for the thread sanitizer; 2: and so in each block of a launch,
  // for kernels without shared memory, whose place blocks have one after another
  int race_check = 0;
  NcclFault nccl_fault = NcclFault::none;  // [NCCL_FAULT] error, stall, stop
  int nccl_fault_rank = 0;                 // [NCCL_FAULT_RANK]
  int nccl_fault_at = 0;                   // [NCCL_FAULT_AT] number of the operation on its communicator
  int stall_device = 0;                    // [STALL_DEVICE] on which a kernel never ends,
  int stall_at = -1;      // [STALL_AT] its number among those that are launched there; -1: none
  int nccl_mismatch = 1;  // [NCCL_MISMATCH] 1: calls that do not fit end the process; 0: they never end
  int nccl_version = 0;   // [NCCL_VERSION] that it says, as NCCL numbers them; 0: that of its header
  int stream_waits = 1;   // [STREAM_WAITS] 0: a fault, no stream waits for an event
  int guard = 1;  // [GUARD] 1: a host that touches memory of a device ends the process (see arena.hpp)
};

const Settings& settings();

// Waits until the streams that were destroyed have ended. Ends the process where others are left.
void configure(const Settings& settings);

// What happened since the process began, or since configure().
struct Counts {
  std::uint64_t operations = 0;  // finished, over all streams
  std::uint64_t takeovers = 0;   // serial: operations run for a host thread that waited outside CUDA
};
Counts counts();

// The most memory of `device` that was ever in use.
std::size_t peak_bytes(int device);

// What a process that breaks a rule of CUDA ends with, after saying which.
constexpr int kFaultExit = 86;

}  // namespace zp::emulated
