// MPI's own collectives as Native.
#pragma once

#include <memory>

#include "harness/transport/mpi_job.hpp"

namespace zp::transport {

// Over all ranks of the job, which must outlive it.
std::unique_ptr<Native> make_mpi_native(Job& job);

}  // namespace zp::transport
