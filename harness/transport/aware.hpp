// A link for memory of a device over one that reaches that memory by itself, such as a GPU-aware MPI's:
// messages lie where they are, and only wait for the stream. Message by message the same as the link inside.
#pragma once

#include <memory>

#include "harness/transport/transport.hpp"

namespace zp {

// A message is given to the link inside once what was put on `stream` before it is over: the memory that it
// takes is written by then, and the memory that it arrives in is read. It has arrived, or left, when the
// request is done; what is put on the stream after that finds it so. Both must outlive the link.
std::unique_ptr<Link> make_aware_link(Link& inner, Stream& stream);

}  // namespace zp
