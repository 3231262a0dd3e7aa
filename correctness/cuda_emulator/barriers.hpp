// Barriers of blocks and of warps, and waits for asynchronous copies, by the line of the source where they
// stand: those that were met, and one that is left out, so that a test can look for kernels that do without.
#pragma once

#include "correctness/cuda_emulator/kernel.hpp"

namespace zp::emulated {

// Notes barriers from now on. No thread stops at those of a line of a file of that name, in any folder;
// "": none is left out. Call it while no stream exists.
void watch_barriers(const char* file, int line);

// Those that a thread came to, in no order.
int barriers_met();
Site barrier_met(int number);

// For the runtime: notes the barrier; true where threads are not to stop there.
bool barrier_left_out(Site site);

}  // namespace zp::emulated
