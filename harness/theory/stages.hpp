// The six stages as theory sees them: one row of traits each (design 2). harness/suite joins every row to its
// strategy.
#pragma once

#include <array>
#include <string_view>

#include "harness/theory/stage.hpp"

namespace zp::theory {

inline constexpr Stage kDdp{.name = "ddp",
                            .params = Held::whole,
                            .grads = Held::whole,
                            .optimizer = Held::whole,
                            .gather = Gather::never,
                            .reduction = Reduction::after_accumulation,
                            .all_reduces = true};
inline constexpr Stage kZero1{.name = "zero1",
                              .params = Held::whole,
                              .grads = Held::whole,
                              .optimizer = Held::slice,
                              .gather = Gather::after_step,
                              .reduction = Reduction::after_accumulation,
                              .all_reduces = false};
inline constexpr Stage kZero1AllReduce{.name = "zero1-allreduce",
                                       .params = Held::whole,
                                       .grads = Held::whole,
                                       .optimizer = Held::slice,
                                       .gather = Gather::after_step,
                                       .reduction = Reduction::after_accumulation,
                                       .all_reduces = true};
inline constexpr Stage kZero2{.name = "zero2",
                              .params = Held::whole,
                              .grads = Held::slice,
                              .optimizer = Held::slice,
                              .gather = Gather::after_step,
                              .reduction = Reduction::every_micro_step,
                              .all_reduces = false};
inline constexpr Stage kZero3{.name = "zero3",
                              .params = Held::slice,
                              .grads = Held::slice,
                              .optimizer = Held::slice,
                              .gather = Gather::every_use,
                              .reduction = Reduction::every_micro_step,
                              .all_reduces = false};
inline constexpr Stage kZero3Keep{.name = "zero3-keep",
                                  .params = Held::slice,
                                  .grads = Held::slice,
                                  .optimizer = Held::slice,
                                  .gather = Gather::every_forward,
                                  .reduction = Reduction::every_micro_step,
                                  .all_reduces = false};

// In the order of every table.
inline constexpr std::array kStages{kDdp, kZero1, kZero1AllReduce, kZero2, kZero3, kZero3Keep};

}  // namespace zp::theory
