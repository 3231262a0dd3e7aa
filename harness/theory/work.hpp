// What one rank computes in one optimizer step: kernels called and elements handled (kernels' own element
// counts). Forward and backward do not depend on the stage; the optimizer handles Ψ or the rank's slice.
// Source: Rajbhandari et al., ZeRO, SC 2020, section 5 (stages shard states, not computation).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/base/quantities.hpp"
#include "harness/base/type.hpp"
#include "harness/base/vocabulary.hpp"
#include "harness/layout/layout.hpp"
#include "harness/layout/training.hpp"
#include "harness/theory/shape.hpp"
#include "harness/theory/stage.hpp"

namespace zp::theory {

struct Work {
  int64_t calls = 0;
  Elements elements;
  friend bool operator==(const Work&, const Work&) = default;
};
using WorkLines = std::map<std::string, Work>;  // by kernel; kernels never called are absent

// The model's kernels in one micro-batch, forward and backward.
WorkLines gpt_work(const GptShape& shape, const Recipe& recipe);
WorkLines synthetic_work(const Layout& layout);

// Everything in one step of `rank`: A micro-batches of the model, sums over micro-steps and places, norm,
// optimizer, master-to-parameter cast.
WorkLines work_per_step(const Stage& stage, const Layout& layout, const Training& training,
                        Algorithm algorithm, int rank, const WorkLines& micro_batch);

}  // namespace zp::theory
