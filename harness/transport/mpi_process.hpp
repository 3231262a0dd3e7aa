// This process as a part of an MPI job: its beginning, its end, and what a failed call becomes. Free of
// mpi.h.
#pragma once

namespace zp::transport {

// Throws Error (transport) with the library's own words unless `result` is MPI_SUCCESS.
void check_mpi(int result, const char* call);

// Starts MPI where it has not been started yet; errors are returned, not fatal. Its end is end_processes().
void start_mpi();

// The job must have `world` processes; several processes that each form a job of one are a mistake. Throws
// (usage).
void check_world(int world);

}  // namespace zp::transport
