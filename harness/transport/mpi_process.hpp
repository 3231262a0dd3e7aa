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

// The lowest rank of the job that shares this process's memory. Collective.
int first_of_node();

// Whether MPI gives the core away whenever it finds nothing new, as far as the library says.
bool mpi_yields();

// From now on this process must not call MPI in any way that moves messages, not even to end it: memory that
// MPI may still touch has been given back. `silent_rank` is the rank that did not answer, where one is known.
void give_up_mpi(int silent_rank = -1);
bool mpi_given_up();

}  // namespace zp::transport
