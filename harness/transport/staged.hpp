// A link for memory that the host cannot use where it lies, over one that carries the host's: messages pass
// through pinned memory of the host. Message by message the same as the link inside.
#pragma once

#include <memory>

#include "harness/transport/transport.hpp"

namespace zp {

// Copies run on `stream`: a message is taken up after what was put there before, and what is received lies in
// memory for what is put there once the request is done. Messages are at most kLongestMessage long. There is
// as much pinned memory as messages were in flight at once (kept until the end). All must outlive the link.
std::unique_ptr<Link> make_staged_link(Link& inner, FarMemory& memory, Stream& stream);

}  // namespace zp
