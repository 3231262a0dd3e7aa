// What one rank sends in one optimizer step, in closed form: passes of (N-1)/N·S each, S_u = N·L_u·b padded
// bytes. Payload only; verdicts and evidence travel on another line. Never sees a strategy or a transport.
// Source: Rajbhandari et al., ZeRO, SC 2020, section 7; all-reduce = reduce-scatter + all-gather.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "harness/base/quantities.hpp"
#include "harness/base/type.hpp"
#include "harness/base/vocabulary.hpp"
#include "harness/layout/layout.hpp"
#include "harness/layout/training.hpp"
#include "harness/theory/stage.hpp"

namespace zp::theory {

// Limbs of the gradient norm that every rank gives to all (design 3.5): int64 each.
inline constexpr Elements kNormLimbs{6};

// A receive piece: a reduce-scatter sends no longer message (design 5). A gather needs no pieces.
inline constexpr Bytes kReceivePiece{256 * 1024};
inline constexpr Bytes kLongestMessage{256 * 1024};

struct Sent {
  int64_t messages = 0;
  Bytes bytes;
  friend bool operator==(const Sent&, const Sent&) = default;
};

struct Asked {
  int64_t calls = 0;
  Bytes whole;
  friend bool operator==(const Asked&, const Asked&) = default;
};

// By purpose and peer rank; peers and purposes that get nothing are absent.
using SentLines = std::map<Purpose, std::map<int, Sent>>;
using AskedLines = std::map<Purpose, std::map<Operation, Asked>>;

// How often a step moves the whole model.
struct Passes {
  int64_t gathers = 0;          // all-gathers of the parameters
  int64_t reduce_scatters = 0;  // of the gradients
  int64_t grad_gathers = 0;     // second halves of all-reduces of the gradients
  int64_t all() const { return gathers + reduce_scatters + grad_gathers; }
};
Passes passes(const Stage& stage, int64_t micro_steps);

SentLines sent_per_step(const Stage& stage, const Layout& layout, const Training& training,
                        Algorithm algorithm, int rank);
// Calls and bytes of the wholes; the same on every rank and at N = 1.
AskedLines asked_per_step(const Stage& stage, const Layout& layout, const Training& training);
// Of all purposes and peers.
Bytes total(const SentLines& lines);

// One collective as every rank's log must show it.
struct Collective {
  Operation operation = Operation::all_gather;
  Purpose purpose = Purpose::gather_params;
  Type type = Type::f32;
  Elements count;   // of the whole
  int tensor = -1;  // unit, or -1
  friend bool operator==(const Collective&, const Collective&) = default;
};
// Every collective of one step in the order in which it is asked for.
std::vector<Collective> collectives_of_step(const Stage& stage, const Layout& layout,
                                            const Training& training);

}  // namespace zp::theory
