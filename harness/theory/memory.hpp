// What one rank holds, by category, at the named points of a step, and the predicted peaks. Exact: every
// buffer is acquired and dropped at program points, never by timing (design 5). The same on every rank and in
// every step. Source of the states: Rajbhandari et al., ZeRO, SC 2020, section 5.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "harness/base/quantities.hpp"
#include "harness/base/vocabulary.hpp"
#include "harness/layout/layout.hpp"
#include "harness/layout/training.hpp"
#include "harness/theory/stage.hpp"

namespace zp::theory {

using HeldLines = std::map<Category, Bytes>;  // categories with nothing held are absent
using HeldPoints = std::map<Point, HeldLines>;

// While one unit is used: each category's largest, and what is held once its last hook is over.
struct HeldInUse {
  HeldLines most, after;
};

// Buffers that a step acquires: how often, and their bytes in total.
struct Acquired {
  int64_t calls = 0;
  Bytes bytes;
  friend bool operator==(const Acquired&, const Acquired&) = default;
};

// Receive pieces per active peer (design 5).
inline constexpr int kReceivePieces = 2;
// Peers that a rank receives from at one time: 1 in halving and ring, N-1 in direct, none alone and
// none in native.
int active_peers(Algorithm algorithm, int world);

// `constant`: what model and kernels hold from init to end (activations, workspace, data), see
// activations.hpp.
HeldPoints held_per_step(const Stage& stage, const Layout& layout, const Training& training,
                         Algorithm algorithm, const HeldLines& constant);
// In the order of layout/uses.hpp; the same in every micro-step.
std::vector<HeldInUse> held_in_uses(const Stage& stage, const Layout& layout, const Training& training,
                                    Algorithm algorithm, const HeldLines& constant);
// What is held from init to end is acquired before the first step: in a step only gathered units, local
// gradients and the scratch of a borrowed unit are.
std::map<Category, Acquired> acquired_per_step(const Stage& stage, const Layout& layout,
                                               const Training& training);
// Each category at its own largest within the step: not a moment, since they need not meet.
HeldLines largest_by_category(const Stage& stage, const Layout& layout, const Training& training,
                              Algorithm algorithm, const HeldLines& constant);
Bytes total(const HeldLines& lines);

// Pinned memory of the host that a rank's messages take. None where they are staged through it: a piece for
// every message that was in flight at once, which a clock decides, and at least one.
std::optional<Bytes> pinned_for_messages(Route route, int world);

}  // namespace zp::theory
