// Contenders take turns.
#include "harness/measure/rounds.hpp"

namespace zp {

std::vector<size_t> turns_of(int round, size_t contenders) {
  std::vector<size_t> turns;
  for (size_t i = 0; i < contenders; ++i) turns.push_back((i + static_cast<size_t>(round)) % contenders);
  return turns;
}

}  // namespace zp
