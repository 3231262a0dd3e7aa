// One device working alone: whole tensors by name, no flat layout, no slices, no transport. It shares the
// kernels with the stages and nothing else (its own forward, backward and sums), so that a fault of theirs is
// not its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/type.hpp"
#include "harness/base/vocabulary.hpp"
#include "harness/layout/training.hpp"
#include "harness/model/model.hpp"
#include "kernels/hash.hpp"

namespace zp {

// What fixes the bits of a run beside model, data and training numbers (design 3.3, 3.4): where sums over
// micro-batches are taken and rounded.
struct Arithmetic {
  Reduction reduction = Reduction::after_accumulation;
  Batching batching;
  Algorithm algorithm = Algorithm::direct;
  Type grads = Type::f32;
  GradientWire wire = GradientWire::as_stored;
  friend bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

// Layouts that end on the same bits have equal canonical arithmetic; one reference serves them all. With fp32
// gradients whatever equals the fold over all M micro-batches becomes one device (N = 1) accumulating M
// micro-batches; in fixed point every arithmetic of M micro-batches does.
Arithmetic canonical(const Arithmetic& arithmetic);

struct ReferenceConfig {
  ModelConfig model;
  BatchShape shape;
  Recipe recipe;
  Arithmetic arithmetic;
  uint64_t seed = 1;
  double clip = 1.0;
  Method optimizer = Method::adamw;
  float lr = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0, momentum = 0;
  const Corpus* corpus = nullptr;  // null for the synthetic model
};

// The replica hashes (kernels/hash.hpp) of what ranks may hold whole, over tensors.
struct ReplicaHashes {
  std::vector<HashSum> params_before, grads, params, master, m, v;
};

// Hashes that one step leaves. Vectors over tensors (index over the whole model) unless said otherwise. What
// a frozen tensor does not have hashes to nothing.
struct ReferenceStep {
  std::vector<HashSum> params_before;         // as used by this step's forward and backward
  std::vector<HashSum> grads;                 // averaged, before clipping
  std::vector<HashSum> params, master, m, v;  // after the step
  std::vector<HashSum> micro_batch_grads;     // by micro-batch number: whole model, stored (rounded) gradient
  HashSum state;                              // H of design 3.8: params, masters and moments of all tensors
  std::optional<ReplicaHashes> replicas;      // none: what ranks hold whole is compared by the hashes above
  uint64_t norm_bits = 0, loss_bits = 0;      // fp64 bits
};

// The steps of one arithmetic: computed by a device alone, or read from a file.
struct ReferenceRun {
  Arithmetic arithmetic;
  std::vector<ReferenceStep> steps;
};

class Reference {
 public:
  Reference() = default;
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  virtual ~Reference() = default;
  // Runs the next step (from step 0). `progress` is called after every micro-batch.
  virtual ReferenceStep step(const std::function<void()>& progress) = 0;
  // Bits of one tensor's state as the last step left it (grad: the averaged gradient of that step); zeros
  // where a frozen tensor has no such state.
  virtual std::vector<uint32_t> bits(HashKind kind, int tensor) const = 0;
};

// Memory comes from `device` (never metered) and kernels from `kernels` (never metered).
std::unique_ptr<Reference> make_reference(const ReferenceConfig& config, Device& device,
                                          kernels::Table& kernels);

// By which function ranks hash what they hold whole, for this reference to be compared with.
inline HashFunction hash_of_replicas(const ReferenceStep& reference) {
  return reference.replicas ? HashFunction::replica : HashFunction::state;
}

template <class A>
void archive(A& a, ReplicaHashes& h) {
  a(h.params_before, h.grads, h.params, h.master, h.m, h.v);
}
template <class A>
void archive(A& a, ReferenceStep& s) {
  a(s.params_before, s.grads, s.params, s.master, s.m, s.v, s.micro_batch_grads, s.state, s.replicas,
    s.norm_bits, s.loss_bits);
}

}  // namespace zp
