// A link for memory of a device over one that reaches that memory by itself, such as a GPU-aware MPI's:
// messages lie where they are, and only wait for the stream. Message by message the same as the link inside.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "harness/transport/transport.hpp"

namespace zp {

// A message is given to the link inside once what was put on `stream` before it is over: the memory that it
// takes is written by then, and the memory that it arrives in is read. It has arrived, or left, when the
// request is done; what is put on the stream after that finds it so. Both must outlive the link.
std::unique_ptr<Link> make_aware_link(Link& inner, Stream& stream);

// Collective: whether `link` reaches the memory of `device` as it promises. From every rank to every other go
// a short message and a long one, of bytes that differ for each two ranks, from an odd place on; the host
// looks at what lies where they arrive, and beside it. What is found amiss first, in words, the same on every
// rank; none where nothing is. A message that fails, or does not come within `timeout_s`, throws (transport,
// timeout). A library that was given memory that it cannot reach may end the process: nobody can catch that.
std::optional<std::string> fault_in_reach(Link& link, Device& device, Control& control, double timeout_s);

}  // namespace zp
