// How messages between devices' memories go: a library is given that memory once it has been shown to reach
// it, on all ranks or on none.
#pragma once

#include <string>

#include "harness/suite/job.hpp"

namespace zp {

struct MessageWay {
  Route route = Route::staged;
  std::string words;  // for people, with the reason; "" where memory is the host's
};

// Collective, the same on every rank. `local_rank` counts the ranks of this host.
MessageWay message_way(const Job& job, int local_rank, Control& control);

}  // namespace zp
