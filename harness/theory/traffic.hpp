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

// How often a step moves the whole model, where every unit is trained, and none borrowed or kept.
struct Passes {
  int64_t gathers = 0;          // all-gathers of the parameters
  int64_t reduce_scatters = 0;  // of the gradients
  int64_t grad_gathers = 0;     // second halves of all-reduces of the gradients
  int64_t all() const { return gathers + reduce_scatters + grad_gathers; }
};
Passes passes(const Stage& stage, int64_t micro_steps);

// Gathers of parameters within one micro-step, in the order in which they are asked for: which unit, for
// which use (layout/uses.hpp), and after which use it is dropped. zero3 gathers every unit that a use reads,
// before that use; the last `keep` units, and all of them in zero3-keep, once.
struct Gathering {
  int unit = 0;
  size_t use = 0, last_use = 0;
};
std::vector<Gathering> gatherings(const Stage& stage, const Layout& layout, const Training& training);

// Whether gradients become fixed point in their reduction: with --wire i64, unless they were summed in it
// before.
bool converts_in_reduction(const Stage& stage, const Training& training);

// Nothing in native: what a library sends, it does not say.
SentLines sent_per_step(const Stage& stage, const Layout& layout, const Training& training,
                        Algorithm algorithm, int rank);
// Calls and bytes of the wholes; the same on every rank and at N = 1.
AskedLines asked_per_step(const Stage& stage, const Layout& layout, const Training& training);
// Of all purposes and peers.
Bytes total(const SentLines& lines);
// What of it goes to ranks on other nodes, in closed form; the slices that cross are counted, not the peers:
// of N = R·s ranks, s on each of R nodes, at places by node. Halving: slices, those of the exchanges at
// distances below R, so (R-1)/(R·s)·S a pass; direct: (N-s) slices, one to each rank elsewhere. Throws
// (internal) where nodes hold unequal numbers of ranks.
Bytes crossing_per_step(const Stage& stage, const Layout& layout, const Training& training,
                        Algorithm algorithm);

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
