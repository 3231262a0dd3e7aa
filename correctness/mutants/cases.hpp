// The list of mutants with the claims that must refute each.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "correctness/mutants/trial.hpp"

namespace zp::mutants {

struct Case {
  Trial mutant;
  std::set<Claim> refuted;  // exactly these
  std::string says;         // a word of the first refuted claim's evidence
};

// A mutant that ends on every rank with the same error, before any claim can be judged.
struct Ending {
  Trial mutant;
  Exit exit;
  std::vector<std::string> says;  // the first of them wherever it happens, the others as it is written here
};

inline constexpr int kLastUnit = 4;  // of model `tiny`: embeddings, three blocks, head

// The call as one kernel's, or null.
template <class Kernel>
const Kernel* as(const kernels::Call& call) {
  return std::get_if<Kernel>(&call);
}

std::vector<Case> gradient_mutants();
std::vector<Case> traffic_mutants();
std::vector<Case> holding_mutants();
std::vector<Case> shape_mutants();
std::vector<Ending> ending_mutants();

inline std::vector<Case> all_mutants() {
  std::vector<Case> all = gradient_mutants();
  for (Case& mutant : traffic_mutants()) all.push_back(std::move(mutant));
  for (Case& mutant : holding_mutants()) all.push_back(std::move(mutant));
  for (Case& mutant : shape_mutants()) all.push_back(std::move(mutant));
  return all;
}

}  // namespace zp::mutants
