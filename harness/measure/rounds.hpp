// Contenders take turns: whatever slows the machine for a while hits all of them alike.
#pragma once

#include <cstddef>
#include <vector>

namespace zp {

// Who runs after whom in round `round`: every contender once, each round one later in the row than in the
// round before, so that nobody always follows the same one.
std::vector<size_t> turns_of(int round, size_t contenders);

}  // namespace zp
