// How a state hash is written.
#include "kernels/hash.hpp"

namespace zp {

std::string to_string(const HashSum& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const uint64_t lane : {hash.high, hash.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(lane >> shift) & 0xfU];
  }
  return out;
}

}  // namespace zp
