// Where a run took place: host, processor, memory, compiler and a whitelist of environment variables. Reads
// the system; decides nothing.
#pragma once

#include <string>
#include <string_view>

#include "harness/report/result.hpp"

namespace zp {

// The project's version, "1.2.3".
std::string_view version();

// Fills version, host, os, cpu, compiler, cores, memory_available, env and start_time.
void describe_host(RunSettings& settings);

// Now, in UTC: "2024-05-06T07:08:09Z".
std::string utc_now();

// Cores that this process may use: the smaller of its affinity and its control group's quota, at least 1.
int usable_cores();
// Kernel threads per rank where none are asked for: cores / local_ranks, at least 1. A process that its
// launcher bound to some of the cores takes no more than those.
int default_threads(int local_ranks);
// Ranks of a job of `world` ranks that run on this host, as its launcher says; `world` where it does not say.
int local_ranks(int world);

// Memory that can still be taken without swapping: MemAvailable, or what the control group's limit leaves.
Bytes available_memory();
// MemAvailable of a /proc/meminfo text, 0 where it has none.
Bytes parse_available(std::string_view meminfo);

}  // namespace zp
