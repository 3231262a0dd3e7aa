// The rows of the table of kernels as benchmarks.
#include "bench/kernel_rows.hpp"

#include <string>
#include <type_traits>

#include "kernels/cases.hpp"

namespace zp::bench {
namespace {

using namespace kernels;

Question question_of(const Call& call) {
  return std::visit(
      []<class C>(const C&) {
        constexpr bool products = std::is_same_v<C, Gemm> || std::is_same_v<C, AttentionForward> ||
                                  std::is_same_v<C, AttentionBackward>;
        constexpr bool states = std::is_same_v<C, Cast> || std::is_same_v<C, Fold> ||
                                std::is_same_v<C, ToFixed> || std::is_same_v<C, AdamW> ||
                                std::is_same_v<C, Sgd> || std::is_same_v<C, SquareSum> ||
                                std::is_same_v<C, HashRun> || std::is_same_v<C, Initialize> ||
                                std::is_same_v<C, SyntheticGradient>;
        return products ? Question::products : states ? Question::states : Question::rows;
      },
      call);
}

HashSum digest(const KernelCase& row, Isa isa) {
  const auto device = make_host_device(Fill::zero);
  CaseMemory memory(*device);
  make_host_table(*device, {.threads = 1, .max_sequence = kOddSizes.sequence, .isa = isa})
      ->run(row.make(memory, kOddSizes));
  return memory.digest();
}

void measure(benchmark::State& state, const KernelCase& row, const Options& options) {
  if (digest(row, Isa::best) != digest(row, Isa::portable)) {
    return state.SkipWithError("INVALID: bits differ from the portable kernels");
  }
  const auto device = make_host_device(Fill::zero);
  CaseMemory memory(*device);
  const auto table =
      make_host_table(*device, {.threads = 1, .max_sequence = kSmallModelSizes.sequence, .isa = Isa::best});
  const Call call = row.make(memory, kSmallModelSizes);
  SideBySide contenders(options, thread_seconds);
  contenders.add([&] { table->run(call); });
  if (const double operations = operations_of(call); operations > 0.0) {
    const ProductPeaks peaks(contenders);
    run_rounds(state, contenders);
    peaks.report(state, contenders, operations);
    return;
  }
  const double bytes = bytes_moved(call);
  Copy copy(bytes);
  const size_t peer = contenders.add([&] { copy(); });
  run_rounds(state, contenders);
  state.counters["GB/s"] = bytes / contenders.median_s(0) * 1e-9;
  state.counters["copy GB/s"] = copy.bytes() / contenders.median_s(peer) * 1e-9;
  state.counters["of copy"] = contenders.ratio(0, peer);
  state.counters["ns/element"] = contenders.median_s(0) * 1e9 / static_cast<double>(elements_of(call).n);
}

}  // namespace

ProductPeaks::ProductPeaks(SideBySide& contenders) {
  for (const FmaPeak& peak : {fma_peak_avx2(), fma_peak_avx512()}) {
    if (peak.run) entries_.push_back({.peak = peak, .contender = contenders.add(peak.run)});
  }
}

void ProductPeaks::report(benchmark::State& state, const SideBySide& contenders, double operations) const {
  state.counters["GFLOP/s"] = operations / contenders.median_s(0) * 1e-9;
  for (const Entry& entry : entries_) {
    const std::string name = "peak of " + std::to_string(entry.peak.lanes) + " lanes";
    const double work = entry.peak.operations / operations;
    state.counters[name + ", GFLOP/s"] = entry.peak.operations / contenders.median_s(entry.contender) * 1e-9;
    state.counters["of " + name] = contenders.ratio(0, entry.contender) / work;
  }
}

void add_kernel_rows(Question question, const Options& options) {
  for (const KernelCase& row : kernel_cases()) {
    const auto device = make_host_device(Fill::zero);
    CaseMemory memory(*device);
    if (question_of(row.make(memory, kOddSizes)) != question) continue;
    add_benchmark(std::string(row.name), options,
                  [&row, options](benchmark::State& state) { measure(state, row, options); });
  }
}

}  // namespace zp::bench
