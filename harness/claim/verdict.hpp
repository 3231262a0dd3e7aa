// A claim held, was refuted, or was not measured; with its evidence. A value, never an exception.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/check.hpp"

namespace zp {

enum class Claim { bits, bytes, memory, work };
inline constexpr std::array kClaims{Claim::bits, Claim::bytes, Claim::memory, Claim::work};

constexpr std::string_view name_of(Claim claim) {
  switch (claim) {
    case Claim::bits: return "bits";
    case Claim::bytes: return "bytes";
    case Claim::memory: return "memory";
    case Claim::work: return "work";
  }
  return "?";
}

constexpr Exit exit_of(Claim claim) {
  switch (claim) {
    case Claim::bits: return Exit::bits;
    case Claim::bytes: return Exit::bytes;
    case Claim::memory: return Exit::memory;
    case Claim::work: return Exit::work;
  }
  return Exit::internal;
}

enum class Finding { proved, refuted, not_measured };

struct Verdict {
  Claim claim = Claim::bits;
  Finding finding = Finding::not_measured;
  // Refuted: the first contradiction on a line of its own, then at most a few more ("step 2, rank 1: block.0
  // …").
  std::vector<std::string> evidence;
  bool holds() const { return finding == Finding::proved; }
};

}  // namespace zp
