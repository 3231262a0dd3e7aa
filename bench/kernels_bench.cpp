// How fast is each kernel, on the shapes of the model `small` (4 sequences a micro-batch) and one thread?
// Beside the rows of the table of kernels stands the peak of fused multiply-adds of this machine, measured in
// the same run. A row is measured only after its bits were seen to equal those of the portable kernels.
#include <benchmark/benchmark.h>

#include <string>

#include "kernels/cases.hpp"

namespace zp::kernels {
namespace {

// Floating-point operations an element of `call` costs where products dominate, else 0: one product in a
// gemm, two in attention, five in its backward.
double operations_of(const Call& call) {
  const auto elements = static_cast<double>(elements_of(call).n);
  if (std::holds_alternative<Gemm>(call)) return 2.0 * elements;
  if (std::holds_alternative<AttentionForward>(call)) return 4.0 * elements;
  if (std::holds_alternative<AttentionBackward>(call)) return 10.0 * elements;
  return 0.0;
}

HashSum digest(const KernelCase& row, Isa isa) {
  const auto device = make_host_device(Fill::zero);
  CaseMemory memory(*device);
  make_host_table(*device, {.threads = 1, .max_sequence = kOddSizes.sequence, .isa = isa})
      ->run(row.make(memory, kOddSizes));
  return memory.digest();
}

void measure(benchmark::State& state, const KernelCase& row) {
  if (digest(row, Isa::best) != digest(row, Isa::portable)) {
    state.SkipWithError("INVALID: bits differ from the portable kernels");
    return;
  }
  const auto device = make_host_device(Fill::zero);
  CaseMemory memory(*device);
  const auto table =
      make_host_table(*device, {.threads = 1, .max_sequence = kSmallModelSizes.sequence, .isa = Isa::best});
  const Call call = row.make(memory, kSmallModelSizes);
  table->run(call);
  for (auto _ : state) table->run(call);
  const auto runs = static_cast<double>(state.iterations());
  const auto rate = benchmark::Counter::kIsRate;
  state.counters["elements/s"] = {static_cast<double>(elements_of(call).n) * runs, rate};
  if (const double operations = operations_of(call); operations > 0.0) {
    state.counters["FLOP/s"] = {operations * runs, rate};
  } else {
    // Each buffer once; what is read and written counts once too.
    state.counters["bytes/s"] = {static_cast<double>(memory.bytes().n) * runs, rate};
  }
}

#if defined(__x86_64__)
// Twelve independent chains of eight lanes: as many as hide the latency of two units.
__attribute__((target("avx2,fma"))) void peak(benchmark::State& state) {
  using Lanes = float __attribute__((vector_size(32)));
  Lanes chains[12] = {};
  const Lanes a = {}, b = {};
  constexpr int64_t kSteps = 1 << 16;
  for (auto _ : state) {
    for (int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
      for (Lanes& chain : chains) asm volatile("vfmadd231ps %1, %2, %0" : "+x"(chain) : "x"(a), "x"(b));
    }
  }
  const auto operations = static_cast<double>(state.iterations() * kSteps * 12 * 8 * 2);
  state.counters["FLOP/s"] = {operations, benchmark::Counter::kIsRate};
}
#endif

void register_all() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    benchmark::RegisterBenchmark("fma peak", peak);
  }
#endif
  for (const KernelCase& row : kernel_cases()) {
    benchmark::RegisterBenchmark(std::string(row.name).c_str(),
                                 [&row](benchmark::State& state) { measure(state, row); });
  }
}

}  // namespace
}  // namespace zp::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 6;
  zp::kernels::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
