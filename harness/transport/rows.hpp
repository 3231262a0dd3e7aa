// What the table of transports is made of: how ranks come to be. Each is defined in the file of its name.
#pragma once

#include <functional>

#include "harness/transport/transport.hpp"

namespace zp::transport {

void run_threads(int world, double timeout_s, const std::function<void(Endpoint&)>& body);
void run_mpi(int world, double timeout_s, const std::function<void(Endpoint&)>& body);

// What a rank says of an exception when it announces it.
struct Announcement {
  Exit code = Exit::internal;
  std::string text;
};
// Of the exception that is being handled.
Announcement announcement(int rank);

}  // namespace zp::transport
