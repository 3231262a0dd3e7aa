// Lies that a claim must refute: evidence that agrees with theory, with one field changed.
#pragma once

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "harness/claim/verdict.hpp"
#include "harness/ledger/evidence.hpp"

namespace zp {

// A lie in the evidence of rank 1 of four, which stands at place 0.
struct Lie {
  std::string name;
  Claim claim;
  std::function<void(StepEvidence&)> tell;
  std::string found;  // in the first line
};

inline std::ostream& operator<<(std::ostream& out, const Lie& lie) { return out << lie.name; }

inline void flip(HashSum& hash) { hash.low ^= 1U << 7; }

inline TensorHash& of_kind(std::vector<TensorHash>& hashes, HashKind kind) {
  return *std::ranges::find(hashes, kind, &TensorHash::kind);
}

std::vector<Lie> all_lies();

}  // namespace zp
