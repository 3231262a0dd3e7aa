// Contenders measured side by side, and the command line of the benchmarks.
#include "bench/side_by_side.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace zp::bench {

Options parse(int* argc, char** argv) {
  Options options;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view arg = argv[i];
    const auto value = [&arg](std::string_view name) -> const char* {
      return arg.starts_with(name) ? arg.data() + name.size() : nullptr;
    };
    if (const char* rounds = value("--rounds=")) {
      options.rounds = std::max(1, std::atoi(rounds));
    } else if (const char* slot = value("--slot=")) {
      options.slot_s = std::atof(slot);
    } else if (const char* core = value("--core=")) {
      options.core = core;
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  benchmark::Initialize(argc, argv);
  if (benchmark::ReportUnrecognizedArguments(*argc, argv)) std::exit(6);
  return options;
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

size_t SideBySide::add(std::function<void()> run) {
  contenders_.push_back({.run = std::move(run), .calls = 0, .seconds = {}});
  return contenders_.size() - 1;
}

void SideBySide::calibrate(Contender& contender) const {
  contender.run();
  const double begin = clock_();
  contender.run();
  const double once = std::max(clock_() - begin, 1e-9);
  contender.calls = static_cast<int>(std::clamp(std::ceil(options_.slot_s / once), 1.0, 1e6));
}

void SideBySide::round() {
  for (Contender& contender : contenders_) {
    if (contender.calls == 0) calibrate(contender);
  }
  const size_t first = contenders_.front().seconds.size();
  for (size_t i = 0; i < contenders_.size(); ++i) {
    Contender& contender = contenders_[(first + i) % contenders_.size()];
    const double begin = clock_();
    for (int call = 0; call < contender.calls; ++call) contender.run();
    contender.seconds.push_back((clock_() - begin) / contender.calls);
  }
}

double SideBySide::median_s(size_t contender) const { return median(contenders_[contender].seconds); }

double SideBySide::last_s(size_t contender) const { return contenders_[contender].seconds.back(); }

double SideBySide::ratio(size_t contender, size_t other) const {
  std::vector<double> ratios;
  for (size_t i = 0; i < contenders_[contender].seconds.size(); ++i) {
    ratios.push_back(contenders_[other].seconds[i] / contenders_[contender].seconds[i]);
  }
  return median(ratios);
}

void run_rounds(benchmark::State& state, SideBySide& contenders) {
  for (auto _ : state) {
    contenders.round();
    state.SetIterationTime(contenders.last_s(0));
  }
}

void add_benchmark(const std::string& name, const Options& options,
                   std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [body = std::move(body)](benchmark::State& state) { body(state); })
      ->Iterations(options.rounds)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace zp::bench
