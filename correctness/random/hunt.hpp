// Mutants are looked for among drawn configurations: nothing is pinned but what a mutant needs in order to
// exist at all.
#pragma once

#include <functional>
#include <vector>

#include "correctness/mutants/trial.hpp"
#include "correctness/random/axes.hpp"

namespace zp::drawn {

struct Hunted {
  mutants::Trial mutant;
  std::function<bool(const mutants::Outcome&)> is_found;  // by a claim that it offends, or by its error
};

// Every mutant, of claims and of errors.
std::vector<Hunted> hunted();

// What is not drawn.
Configuration needs(const mutants::Trial& mutant);

// How many configurations were drawn until one found it; 0: none of `most` did.
int64_t draws_until_found(const Hunted& hunted, uint64_t seed, int64_t most);

}  // namespace zp::drawn
