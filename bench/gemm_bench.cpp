// Is the gemm of the arithmetic contract as fast as OpenBLAS, whose order of summation is free? One thread,
// the shapes of transformers, both in turn in one process, with the peak of fused multiply-adds of the same
// run. A row counts only where sampled elements of ours equal the contract's chain bit for bit.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "bench/kernel_rows.hpp"
#include "bench/peaks.hpp"
#include "bench/side_by_side.hpp"
#include "harness/base/random.hpp"

#if ZP_OPENBLAS
#include <cblas.h>
#endif

namespace zp::bench {
namespace {

using kernels::Gemm;
using kernels::Transpose;

struct Shape {
  const char* use;
  bool a_transposed, b_transposed;
  int64_t m, n, k;
};

constexpr Shape kShapes[] = {
    {"square", false, false, 256, 256, 256},          {"square", false, false, 512, 512, 512},
    {"square", false, false, 768, 768, 768},          {"square", false, false, 1024, 1024, 1024},
    {"square", false, true, 1024, 1024, 1024},        {"square", true, false, 1024, 1024, 1024},
    {"fwd qkv d256", false, true, 256, 768, 256},     {"fwd mlp1 d256", false, true, 512, 1024, 256},
    {"fwd mlp2 d256", false, true, 512, 256, 1024},   {"fwd qkv d768", false, true, 512, 2304, 768},
    {"fwd mlp1 d768", false, true, 1024, 3072, 768},  {"fwd mlp1 d1024", false, true, 1024, 4096, 1024},
    {"fwd mlp2 d1024", false, true, 512, 1024, 4096}, {"dX mlp1 d768", false, false, 1024, 768, 3072},
    {"dW qkv d256", true, false, 768, 256, 512},      {"dW mlp1 d768", true, false, 3072, 768, 1024},
    {"dW mlp1 d1024", true, false, 4096, 1024, 512},  {"attn QK^T", false, true, 256, 256, 64},
    {"attn PV", false, false, 256, 64, 256},          {"attn dK", true, false, 256, 64, 256},
};

std::string name_of(const Shape& s) {
  return std::string(s.use) + " " + (s.a_transposed ? "T" : "N") + (s.b_transposed ? "T" : "N") + " " +
         std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
}

// Matrices of one shape, and what may be asked of a product.
class Problem {
 public:
  Problem(Device& device, const Shape& shape) : shape_(shape) {
    a_ = device.acquire(Category::activations, Type::f32, {shape.m * shape.k});
    b_ = device.acquire(Category::activations, Type::f32, {shape.k * shape.n});
    c_ = device.acquire(Category::activations, Type::f32, {shape.m * shape.n});
    peer_ = device.acquire(Category::activations, Type::f32, {shape.m * shape.n});
    fill(a_, 1);
    fill(b_, 2);
  }

  Gemm ours() const {
    Gemm call;
    call.a = a_.all();
    call.b = b_.all();
    call.c = c_.all();
    call.a_stored = shape_.a_transposed ? Transpose::yes : Transpose::no;
    call.b_stored = shape_.b_transposed ? Transpose::yes : Transpose::no;
    call.m = shape_.m;
    call.n = shape_.n;
    call.k = shape_.k;
    return call;
  }

#if ZP_OPENBLAS
  void peer() const {
    cblas_sgemm(CblasRowMajor, shape_.a_transposed ? CblasTrans : CblasNoTrans,
                shape_.b_transposed ? CblasTrans : CblasNoTrans, static_cast<int>(shape_.m),
                static_cast<int>(shape_.n), static_cast<int>(shape_.k), 1.0F, a_.all().read<float>(),
                static_cast<int>(shape_.a_transposed ? shape_.m : shape_.k), b_.all().read<float>(),
                static_cast<int>(shape_.b_transposed ? shape_.k : shape_.n), 0.0F, peer_.all().write<float>(),
                static_cast<int>(shape_.n));
  }
#endif

  bool ours_is_the_chain() const {
    return samples([this](int64_t row, int64_t column) {
      float sum = 0.0F;
      for (int64_t first = 0; first < shape_.k; first += kernels::kPanelDepth) {
        float chain = 0.0F;
        for (int64_t k = first; k < std::min(shape_.k, first + kernels::kPanelDepth); ++k) {
          chain = std::fma(a(row, k), b(k, column), chain);
        }
        sum = first == 0 ? chain : sum + chain;
      }
      return sum == c_.all().read<float>()[row * shape_.n + column];
    });
  }

  // Within the bound of any order of k products and k sums.
  bool peer_is_near() const {
    return samples([this](int64_t row, int64_t column) {
      double sum = 0.0, size = 0.0;
      for (int64_t k = 0; k < shape_.k; ++k) {
        const double product = static_cast<double>(a(row, k)) * static_cast<double>(b(k, column));
        sum += product;
        size += std::abs(product);
      }
      const auto got = static_cast<double>(peer_.all().read<float>()[row * shape_.n + column]);
      return std::abs(got - sum) <= static_cast<double>(shape_.k + 1) * 0x1p-24 * size;
    });
  }

 private:
  static void fill(const Buffer& buffer, uint64_t key) {
    float* x = buffer.all().write<float>();
    for (int64_t i = 0; i < buffer.length().n; ++i) x[i] = random_normal(key, static_cast<uint64_t>(i), 1.0F);
  }
  float a(int64_t row, int64_t k) const {
    return a_.all().read<float>()[shape_.a_transposed ? k * shape_.m + row : row * shape_.k + k];
  }
  float b(int64_t k, int64_t column) const {
    return b_.all().read<float>()[shape_.b_transposed ? column * shape_.k + k : k * shape_.n + column];
  }
  template <class Holds>
  bool samples(Holds holds) const {
    constexpr uint64_t kSamples = 200;
    for (uint64_t i = 0; i < kSamples; ++i) {
      const auto at = static_cast<int64_t>(random_bits(3, i) % static_cast<uint64_t>(shape_.m * shape_.n));
      if (!holds(at / shape_.n, at % shape_.n)) return false;
    }
    return true;
  }

  Shape shape_;
  Buffer a_, b_, c_, peer_;
};

// What all rows together say.
struct Summary {
  double logarithms = 0.0, lowest = 1e9;
  int rows = 0;
  void add(double ratio) {
    logarithms += std::log(ratio);
    lowest = std::min(lowest, ratio);
    ++rows;
  }
};

void measure(benchmark::State& state, const Options& options, const Shape& shape, Summary& summary) {
  const auto device = make_host_device(Fill::zero);
  const Problem problem(*device, shape);
  const auto table =
      kernels::make_host_table(*device, {.threads = 1, .max_sequence = 0, .isa = kernels::Isa::best});
  const Gemm call = problem.ours();
  table->run(call);
  if (!problem.ours_is_the_chain()) return state.SkipWithError("INVALID: not the contract's chain");
  SideBySide contenders(options, thread_seconds);
  contenders.add([&] { table->run(call); });
  const ProductPeaks peaks(contenders);
#if ZP_OPENBLAS
  problem.peer();
  if (!problem.peer_is_near()) return state.SkipWithError("OpenBLAS's kernel is wrong on this processor");
  const size_t peer = contenders.add([&] { problem.peer(); });
#endif
  run_rounds(state, contenders);
  const double operations = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  peaks.report(state, contenders, operations);
#if ZP_OPENBLAS
  const double ratio = contenders.ratio(0, peer);
  state.counters["OpenBLAS GFLOP/s"] = operations / contenders.median_s(peer) * 1e-9;
  state.counters["ratio"] = ratio;
  summary.add(ratio);
#else
  static_cast<void>(summary);
#endif
}

#if ZP_OPENBLAS
void report(benchmark::State& state, const Summary& summary) {
  for (auto _ : state) state.SetIterationTime(0.0);
  if (summary.rows == 0) return;
  state.counters["ratio, geometric mean"] = std::exp(summary.logarithms / summary.rows);
  state.counters["ratio, lowest"] = summary.lowest;
  state.counters["shapes"] = summary.rows;
}
#endif

// OpenBLAS chooses its kernel when the process starts, from variables that some machines set. They are
// removed (or replaced by --core) and the process starts anew.
void choose_core(const std::string& core, char** argv) {
  constexpr const char* kCore = "OPENBLAS_CORETYPE";
  constexpr const char* kCache = "OPENBLAS_L2_SIZE";
  const char* set = std::getenv(kCore);
  const std::string now = set == nullptr ? "" : set;
  if (now == core && std::getenv(kCache) == nullptr) return;
  unsetenv(kCache);
  if (core.empty()) {
    unsetenv(kCore);
  } else {
    setenv(kCore, core.c_str(), 1);
  }
  execv("/proc/self/exe", argv);
}

}  // namespace
}  // namespace zp::bench

int main(int argc, char** argv) {
  using namespace zp::bench;
  std::vector<char*> as_given(argv, argv + argc);
  as_given.push_back(nullptr);
  const Options options = parse(&argc, argv);
  choose_core(options.core, as_given.data());
#if ZP_OPENBLAS
  openblas_set_num_threads(1);
  benchmark::AddCustomContext("peer", std::string("OpenBLAS, kernel ") + openblas_get_corename());
#else
  benchmark::AddCustomContext("peer", "none: OpenBLAS was not found when this was built");
#endif
  Summary summary;
  for (const Shape& shape : kShapes) {
    add_benchmark(name_of(shape), options,
                  [&](benchmark::State& state) { measure(state, options, shape, summary); });
  }
#if ZP_OPENBLAS
  add_benchmark("all shapes", {.rounds = 1, .slot_s = 0.0, .core = ""},
                [&](benchmark::State& state) { report(state, summary); });
#endif
  add_kernel_rows(Question::products, options);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
