// The two tables of `plan`: model states held and payload sent per rank, for every stage. Ideal (Ψ/N without
// padding) for any model size, or exact (padded, unit by unit, with the transients by name) where a layout is
// known. Source: Rajbhandari et al., ZeRO, SC 2020, section 5 and 7.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "harness/base/type.hpp"
#include "harness/layout/layout.hpp"
#include "harness/layout/training.hpp"
#include "harness/theory/memory.hpp"
#include "harness/theory/stage.hpp"
#include "harness/theory/traffic.hpp"

namespace zp::theory {

struct PlanNumbers {
  double parameters = 0;  // Ψ
  int ranks = 1;          // N
  Recipe recipe;
  int micro_steps = 1;  // A
  Method optimizer = Method::adamw;
  GradientWire wire = GradientWire::as_stored;
};

// Bytes per rank. Exact as long as the numbers stay below 2⁵³ and Ψ/N is a dyadic number; no rounding of our
// own.
struct IdealRow {
  std::string_view stage;
  double params = 0, grads = 0, optimizer = 0;  // between steps
  double gathered = 0;  // held beside them while the step lasts: all parameters (zero3-keep)
  double sent_params = 0, sent_grads = 0;  // per optimizer step
  double passes = 0;                       // of (N-1)/N·S, S of the tensor moved
  double held() const { return params + grads + optimizer; }
  double sent() const { return sent_params + sent_grads; }
  double optimizer_share() const { return held() > 0 ? optimizer / held() : 0; }
};
std::vector<IdealRow> ideal_table(std::span<const Stage> stages, const PlanNumbers& numbers);

// Beside the states and the payload also sent, per rank and step: 4A(N-1) and 48(N-1) bytes.
double loss_bytes(const PlanNumbers& numbers);
double norm_bytes(const PlanNumbers& numbers);

// Bytes an element of the gradients' passes: the wire's; of an all-reduce, whose gather moves what is stored,
// the mean of both halves.
double bytes_of_grad_pass(const Stage& stage, const Training& training);

// Exact for a layout: what the claims would expect of a run. `constant` as for held_per_step; empty where
// unknown, and then the transients lack activations, workspace and data.
struct ExactRow {
  std::string_view stage;
  HeldLines states;     // params, grads, optimizer
  HeldLines transient;  // every other category, each at its own largest within the step
  HeldLines at_peak;    // at the moment of the largest total
  SentLines sent;       // of the rank at place 0
  Bytes sent_params, sent_grads;
  double passes = 0;  // of (N-1)/N·S, S of the whole model in the tensor moved; 0 at N = 1
};
std::vector<ExactRow> exact_table(std::span<const Stage> stages, const Layout& layout,
                                  const Training& training, Algorithm algorithm, const HeldLines& constant);

}  // namespace zp::theory
