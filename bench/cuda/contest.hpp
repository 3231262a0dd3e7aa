// A kernel and what bounds it, by turns on one stream of a GPU: medians over rounds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/cuda/device_clock.hpp"

namespace zp::bench {

// What a GPU does at best of one kind of work.
struct Ceiling {
  std::string name;           // "copy", "fp32 FMA", "bf16 tensor cores"
  std::string unit;           // "GB/s" or "GFLOP/s"
  double work = 0;            // bytes or operations of one call
  std::function<void()> run;  // empty: `why_not` says why it was not measured
  std::string why_not;
};

struct Effort {
  int rounds = 7;
  double slot_s = 5e-3;  // that a contender runs in a round
};

// How fast the contender was, and which share of the ceiling that is.
struct Measured {
  double seconds = 0;  // median of one call
  double rate = 0, ceiling_rate = 0, share = 0;
  std::vector<double> samples;  // seconds of one call, by round
};

// `work` as the ceiling counts it, of one call of `run`. A share is the median of the shares within rounds.
Measured measure(const DeviceClock& clock, const Ceiling& ceiling, double work,
                 const std::function<void()>& run, const Effort& effort);

}  // namespace zp::bench
