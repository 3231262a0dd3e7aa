// Are our reduce-scatter and all-gather as fast as the MPI library's? Run it under mpirun. In turn in one
// job, fp32, slices from 4 KiB to 16 MiB; the time of a call is that of its slowest rank. A contender whose
// result is wrong is not measured. The library's sums have no documented order; ours are the fold.
#include <benchmark/benchmark.h>
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "bench/side_by_side.hpp"
#include "harness/transport/transport.hpp"

namespace zp::bench {
namespace {

// Every rank takes part in the same calls; only rank 0 reports.
class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

struct Contender {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds;  // of one call, by round
};

// Memory of one collective; small whole numbers, so that every order gives the same sum.
class Exchange {
 public:
  Exchange(Endpoint& endpoint, Elements slice)
      : rank_(endpoint.link->rank()), world_(endpoint.link->world()), slice_(slice) {
    whole_ = device_->acquire(Category::grads, Type::f32, slice * world_);
    mine_ = device_->acquire(Category::grads, Type::f32, slice);
    table_ = kernels::make_host_table(*device_, {.threads = 1, .max_sequence = 0});
    for (const Algorithm algorithm : {Algorithm::halving, Algorithm::direct}) {
      if (algorithm == Algorithm::halving && !std::has_single_bit(static_cast<unsigned>(world_))) continue;
      CollectiveOptions options;
      options.algorithm = algorithm;
      options.places = Places::in_rank_order(world_);
      names_.emplace_back(algorithm == Algorithm::halving ? "halving" : "direct");
      transports_.push_back(make_collectives(*endpoint.link, *device_, *table_, options));
    }
  }

  float* whole() { return whole_.all().write<float>(); }
  float* mine() { return mine_.all().write<float>(); }
  int count() const { return static_cast<int>(slice_.n); }
  int world() const { return world_; }

  std::vector<Contender> reductions() {
    std::vector<Contender> list;
    for (size_t i = 0; i < transports_.size(); ++i) {
      list.push_back({names_[i], [this, i] { transports_[i]->reduce_scatter(reduction()).wait(); }, {}});
    }
    list.push_back(
        {"MPI_Reduce_scatter_block",
         [this] { MPI_Reduce_scatter_block(whole(), mine(), count(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); },
         {}});
    counts_.assign(static_cast<size_t>(world_), count());
    list.push_back(
        {"MPI_Reduce_scatter",
         [this] { MPI_Reduce_scatter(whole(), mine(), counts_.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); },
         {}});
    return list;
  }

  std::vector<Contender> gathers() {
    std::vector<Contender> list;
    for (size_t i = 0; i < transports_.size(); ++i) {
      list.push_back({names_[i], [this, i] { transports_[i]->all_gather(gather()).wait(); }, {}});
    }
    list.push_back(
        {"MPI_Allgather",
         [this] { MPI_Allgather(mine(), count(), MPI_FLOAT, whole(), count(), MPI_FLOAT, MPI_COMM_WORLD); },
         {}});
    return list;
  }

  // Element i of rank r: r + i mod 13.
  void fill() {
    for (int64_t i = 0; i < slice_.n * world_; ++i) whole()[i] = value(rank_, i);
    for (int64_t i = 0; i < slice_.n; ++i) mine()[i] = value(rank_, rank_ * slice_.n + i);
  }
  bool is_reduced() {
    bool right = true;
    for (int64_t i = 0; i < slice_.n; ++i) {
      float sum = 0.0F;
      for (int rank = 0; rank < world_; ++rank) sum += value(rank, rank_ * slice_.n + i);
      right = right && mine()[i] == sum;
    }
    return everywhere(right);
  }
  bool is_gathered() {
    bool right = true;
    for (int64_t i = 0; i < slice_.n * world_; ++i) {
      right = right && whole()[i] == value(static_cast<int>(i / slice_.n), i);
    }
    return everywhere(right);
  }

 private:
  static float value(int rank, int64_t i) { return static_cast<float>(rank + i % 13); }
  static bool everywhere(bool mine) {
    int all = mine ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all == 1;
  }
  ReduceScatter reduction() const {
    return {.whole = whole_.all(),
            .mine = mine_.all(),
            .cuts = Cuts::equal(world_, slice_),
            .divisor = 1.0F,
            .label = {.purpose = Purpose::reduce_grads, .tensor = 0, .name = "bench"}};
  }
  AllGather gather() const {
    return {.mine = mine_.all(),
            .whole = whole_.all(),
            .cuts = Cuts::equal(world_, slice_),
            .label = {.purpose = Purpose::gather_params, .tensor = 0, .name = "bench"}};
  }

  int rank_, world_;
  Elements slice_;
  std::unique_ptr<Device> device_ = make_host_device(Fill::zero);
  Buffer whole_, mine_;
  std::unique_ptr<kernels::Table> table_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<int> counts_;
};

// Calls in a slot: the same on every rank, so it follows the size and not the clock.
int calls_for(int64_t bytes, double slot_s) {
  const double guess = 2e-5 + static_cast<double>(bytes) / 2e9;
  return static_cast<int>(std::clamp(slot_s / guess, 1.0, 1000.0));
}

void measure(benchmark::State& state, Endpoint& endpoint, const Options& options, int64_t slice_bytes,
             bool reduce) {
  Exchange exchange(endpoint, {slice_bytes / 4});
  std::vector<Contender> contenders = reduce ? exchange.reductions() : exchange.gathers();
  for (const Contender& contender : contenders) {
    exchange.fill();
    contender.run();
    if (!(reduce ? exchange.is_reduced() : exchange.is_gathered())) {
      return state.SkipWithError(("INVALID: wrong result of " + contender.name).c_str());
    }
  }
  const int calls = calls_for(slice_bytes * exchange.world(), options.slot_s);
  size_t first = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      Contender& contender = contenders[(first + i) % contenders.size()];
      exchange.fill();
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = wall_seconds();
      for (int call = 0; call < calls; ++call) contender.run();
      double took = (wall_seconds() - begin) / calls;
      MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      contender.seconds.push_back(took);
    }
    ++first;
    state.SetIterationTime(contenders.front().seconds.back());
  }
  const size_t peer = reduce ? contenders.size() - 2 : contenders.size() - 1;
  for (size_t i = 0; i < contenders.size(); ++i) {
    const std::string& name = contenders[i].name;
    state.counters[name + ", us"] = median(contenders[i].seconds) * 1e6;
    if (i >= peer) continue;
    std::vector<double> ratios;
    for (size_t round = 0; round < contenders[i].seconds.size(); ++round) {
      ratios.push_back(contenders[peer].seconds[round] / contenders[i].seconds[round]);
    }
    state.counters[name + " / " + contenders[peer].name] = median(ratios);
  }
}

std::string size_text(int64_t bytes) {
  return bytes < 1 << 20 ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes >> 20) + " MiB";
}

void run(Endpoint& endpoint, const Options& options) {
  for (const bool reduce : {true, false}) {
    for (int64_t bytes = 4 << 10; bytes <= 16 << 20; bytes *= 4) {
      add_benchmark(
          std::string(reduce ? "reduce-scatter " : "all-gather ") + size_text(bytes), options,
          [&, bytes, reduce](benchmark::State& state) { measure(state, endpoint, options, bytes, reduce); });
    }
  }
  if (endpoint.link->rank() == 0) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    Silent silent;
    benchmark::RunSpecifiedBenchmarks(&silent);
  }
}

}  // namespace
}  // namespace zp::bench

int main(int argc, char** argv) {
  using namespace zp::bench;
  const int world = std::max(1, zp::launched_world());
  // A file for records is rank 0's alone.
  zp::transport_named("mpi").run(world, 60.0, [&](zp::Endpoint& endpoint) {
    std::vector<char*> args;
    for (int i = 0; i < argc; ++i) {
      const bool record = std::string_view(argv[i]).starts_with("--benchmark_out");
      if (!record || endpoint.link->rank() == 0) args.push_back(argv[i]);
    }
    auto count = static_cast<int>(args.size());
    args.push_back(nullptr);
    const Options options = parse(&count, args.data());
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(library, &length);
    benchmark::AddCustomContext("peer", std::string(library).substr(0, std::string(library).find(',')));
    benchmark::AddCustomContext("ranks", std::to_string(world));
    run(endpoint, options);
  });
  zp::end_processes(zp::Exit::pass);
}
