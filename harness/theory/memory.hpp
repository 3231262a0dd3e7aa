// What one rank holds, by category, at the named points of a step, and the predicted peaks. Exact: every
// buffer is acquired and dropped at program points, never by timing (design 5). The same on every rank and in
// every step. Source of the states: Rajbhandari et al., ZeRO, SC 2020, section 5.
#pragma once

#include <map>

#include "harness/base/quantities.hpp"
#include "harness/base/vocabulary.hpp"
#include "harness/layout/layout.hpp"
#include "harness/layout/training.hpp"
#include "harness/theory/stage.hpp"

namespace zp::theory {

using HeldLines = std::map<Category, Bytes>;  // categories with nothing held are absent
using HeldPoints = std::map<Point, HeldLines>;

// Receive pieces per active peer (design 5).
inline constexpr int kReceivePieces = 2;
// Peers that a rank receives from at one time: 1 in halving, N-1 in direct, none alone.
int active_peers(Algorithm algorithm, int world);

// `constant`: what model and kernels hold from init to end (activations, workspace, data), see
// activations.hpp.
HeldPoints held_per_step(const Stage& stage, const Layout& layout, const Training& training,
                         Algorithm algorithm, const HeldLines& constant);
// Each category at its own largest within the step: not a moment, since they need not meet.
HeldLines largest_by_category(const Stage& stage, const Layout& layout, const Training& training,
                              Algorithm algorithm, const HeldLines& constant);
Bytes total(const HeldLines& lines);

}  // namespace zp::theory
