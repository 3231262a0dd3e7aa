// Contenders measured side by side: in turn, round after round, so that a noisy neighbour meets all of them
// alike. Figures are medians over rounds; a ratio is the median of the ratios within rounds.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

namespace zp::bench {

// What the command line of every benchmark has beside Google Benchmark's own options.
struct Options {
  int rounds = 11;       // --rounds=N
  double slot_s = 0.05;  // --slot=SECONDS: a contender runs at least so long in each round
  std::string core;      // --core=NAME: see gemm_bench
};

// Takes its own options out of argc and argv and gives the rest to Google Benchmark. Ends the process (6) for
// an option that neither knows.
Options parse(int* argc, char** argv);

// Processor time of the calling thread: what other processes take is not counted.
double thread_seconds();
double wall_seconds();

class SideBySide {
 public:
  using Clock = double (*)();

  SideBySide(const Options& options, Clock clock) : options_(options), clock_(clock) {}

  // `run` does the work once. Returns the contender's number, from 0.
  size_t add(std::function<void()> run);
  // Every contender for one slot. Each round begins with another contender.
  void round();

  double median_s(size_t contender) const;  // of one call
  double last_s(size_t contender) const;
  // How many times as fast as `other` `contender` is.
  double ratio(size_t contender, size_t other) const;

 private:
  struct Contender {
    std::function<void()> run;
    int calls = 0;  // in a slot; 0: not tried yet
    std::vector<double> seconds;
  };

  void calibrate(Contender& contender) const;

  Options options_;
  Clock clock_;
  std::vector<Contender> contenders_;
};

double median(std::vector<double> values);

// Runs the rounds of one benchmark; its time is that of the first contender.
void run_rounds(benchmark::State& state, SideBySide& contenders);

// A benchmark of options.rounds rounds.
void add_benchmark(const std::string& name, const Options& options,
                   std::function<void(benchmark::State&)> body);

}  // namespace zp::bench
