// Rounds of a kernel and its ceiling.
#include "bench/cuda/contest.hpp"

#include <algorithm>
#include <cmath>

namespace zp::bench {
namespace {

constexpr int kMostCalls = 200;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The first call warms up.
int calls_for(const DeviceClock& clock, const std::function<void()>& run, double slot_s) {
  run();
  const double once = std::max(1e-6, clock.seconds(run, 1));
  return std::clamp(static_cast<int>(std::ceil(slot_s / once)), 1, kMostCalls);
}

}  // namespace

Measured measure(const DeviceClock& clock, const Ceiling& ceiling, double work,
                 const std::function<void()>& run, const Effort& effort) {
  const int calls = calls_for(clock, run, effort.slot_s);
  const int ceiling_calls = calls_for(clock, ceiling.run, effort.slot_s);
  Measured measured;
  std::vector<double> ceilings, shares;
  for (int round = 0; round < effort.rounds; ++round) {
    // Each begins every other round.
    if (round % 2 == 0) measured.samples.push_back(clock.seconds(run, calls));
    ceilings.push_back(clock.seconds(ceiling.run, ceiling_calls));
    if (round % 2 == 1) measured.samples.push_back(clock.seconds(run, calls));
    shares.push_back(work / measured.samples.back() / (ceiling.work / ceilings.back()));
  }
  measured.seconds = median(measured.samples);
  measured.rate = work / measured.seconds;
  measured.ceiling_rate = ceiling.work / median(ceilings);
  measured.share = median(shares);
  return measured;
}

}  // namespace zp::bench
