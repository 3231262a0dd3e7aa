// Which hashes of a reference those of ranks are compared with. Only for bits.cpp.
#pragma once

#include <vector>

#include "harness/claim/claims.hpp"

namespace zp {

// Of ReferenceStep or ReplicaHashes.
template <class Hashes>
const std::vector<HashSum>& of_kind(const Hashes& hashes, HashKind kind) {
  switch (kind) {
    case HashKind::param: return hashes.params;
    case HashKind::master: return hashes.master;
    case HashKind::m: return hashes.m;
    case HashKind::v: return hashes.v;
    case HashKind::grad: return hashes.grads;
  }
  fail(Exit::internal, "a hash of no known kind");
}
// Of slices, by tensor.
inline const std::vector<HashSum>& reference_of(const ReferenceStep& reference, HashKind kind) {
  return of_kind(reference, kind);
}
// Of what a rank holds whole.
inline const std::vector<HashSum>& replica_reference_of(const ReferenceStep& reference, HashKind kind) {
  return reference.replicas ? of_kind(*reference.replicas, kind) : of_kind(reference, kind);
}
// Of weights as uses read them.
inline const std::vector<HashSum>& used_by_reference(const ReferenceStep& reference) {
  return reference.replicas ? reference.replicas->params_before : reference.params_before;
}

inline void check_reference(const RunFacts& facts, const ReferenceStep& reference) {
  const auto tensors = static_cast<size_t>(facts.layout->tensor_count());
  const auto check = [&](const auto& hashes) {
    for (const auto* list :
         {&hashes.params_before, &hashes.grads, &hashes.params, &hashes.master, &hashes.m, &hashes.v}) {
      require(list->size() == tensors, "a reference has a hash of every tensor");
    }
  };
  check(reference);
  if (reference.replicas) check(*reference.replicas);
  require(static_cast<int>(reference.micro_batch_grads.size()) == facts.training.batching.micro_batches,
          "a reference has a hash of every micro-batch");
}

}  // namespace zp
