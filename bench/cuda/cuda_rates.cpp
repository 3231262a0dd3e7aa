// cuda_rates [tiny]: how fast is every kernel of the table on a GPU, in parts of what that GPU does at best?
// Ceilings are measured in the same run, by turns with the kernel: a copy of as many bytes, fused
// multiply-adds in registers, and tensor cores where cuBLASLt is there. A kernel counts only where its bits
// were seen to be the host's; times are of what is on the stream, without the host's wait for what a call
// hands over. Text in columns parted by tabs, under a line of heads; "tiny": sizes for an emulated device.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>

#include "bench/cuda/contest.hpp"
#include "bench/cuda/fma_peak.hpp"
#include "bench/cuda/tensor_peak.hpp"
#include "bench/kernel_costs.hpp"
#include "harness/device/cuda_device.hpp"
#include "harness/device/host_access.hpp"
#include "kernels/access.hpp"
#include "kernels/cases.hpp"
#include "kernels/cuda/cuda_table.hpp"

namespace zp::bench {
namespace {

using namespace kernels;

struct Scale {
  CaseSizes sizes;
  int64_t square;         // of the products apart
  int64_t tensor_square;  // of those on tensor cores
  int64_t copied;         // bytes, for the ceiling alone
  int fma_blocks_each, fma_steps;
  Effort effort;
};
// Every buffer is well larger than a cache of today, and what surrounds a kernel (memory cleared, sums
// copied) takes little of its time. Rows are wide: the sum of a column is one chain.
constexpr Scale kFull{.sizes = {.batch = 8,
                                .sequence = 1024,
                                .width = 4096,
                                .heads = 32,
                                .vocabulary = 8192,
                                .parameters = 128 << 20},
                      .square = 4096,
                      .tensor_square = 8192,
                      .copied = int64_t{1} << 30,
                      .fma_blocks_each = 8,
                      .fma_steps = 8192,
                      .effort = {}};
constexpr Scale kTiny{
    .sizes = {.batch = 1, .sequence = 17, .width = 12, .heads = 3, .vocabulary = 33, .parameters = 1001},
    .square = 24,
    .tensor_square = 16,
    .copied = 4096,
    .fma_blocks_each = 1,
    .fma_steps = 4,
    .effort = {.rounds = 1, .slot_s = 0}};

// Of kOddSizes vectors are whole nowhere; of these, which are no smaller, they are everywhere.
constexpr CaseSizes kEvenSizes{
    .batch = 2, .sequence = 68, .width = 48, .heads = 3, .vocabulary = 100, .parameters = 4100};

// One stream of one GPU, with kernels on it.
class Bench {
 public:
  explicit Bench(const Scale& scale) : scale_(scale) {
    const CaseSizes& sizes = scale.sizes;
    const int64_t rows = std::max(sizes.rows() * sizes.heads, kEvenSizes.rows() * kEvenSizes.heads);
    const auto finish = [this] {
      if (waits_) stream_->finish();
    };
    table_ = make_ordered_table(
        make_cuda_table(*device_,
                        {.stream = stream_->handle(), .finish = finish, .max_attention_rows = rows}),
        *stream_);
  }

  CudaDevice& device() { return *device_; }
  cudaStream_t stream() const { return stream_->handle(); }
  Table& table() { return *table_; }
  const Scale& scale() const { return scale_; }
  Measured measure(const Ceiling& ceiling, double work, const std::function<void()>& run) const {
    return bench::measure(clock_, ceiling, work, run, scale_.effort);
  }
  // The host waits for no call but the first: to the others, what they hand over is what that one did.
  Measured measure(const Ceiling& ceiling, double work, const Call& call) {
    const auto run = [&] { table_->run(call); };
    run();
    struct Unwaited {
      explicit Unwaited(bool& of) : waits(of) { waits = false; }
      Unwaited(const Unwaited&) = delete;
      Unwaited& operator=(const Unwaited&) = delete;
      ~Unwaited() { waits = true; }
      bool& waits;
    } const unwaited(waits_);
    return measure(ceiling, work, run);
  }
  // Copies half of `bytes` to the other half: as many are read and written.
  Ceiling copy(double bytes) {
    const auto half = static_cast<int64_t>(bytes / 2.0 / 4.0);
    auto from = std::make_shared<Buffer>(device_->acquire(Category::scalars, Type::f32, {half}));
    auto to = std::make_shared<Buffer>(device_->acquire(Category::scalars, Type::f32, {half}));
    return {.name = "copy",
            .unit = "GB/s",
            .work = 8.0 * static_cast<double>(half),
            .run = [this, from, to] { stream_->copy(from->all(), to->all()); },
            .why_not = {}};
  }
  Ceiling fma() {
    int processors = 0;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    const FmaLaunch launch{.stream = stream(),
                           .blocks = processors * scale_.fma_blocks_each,
                           .steps = scale_.fma_steps,
                           .sink = static_cast<float*>(sink_.all().raw())};
    return {.name = "fp32 FMA",
            .unit = "GFLOP/s",
            .work = launch_fma(launch),
            .run = [launch] { launch_fma(launch); },
            .why_not = {}};
  }
  Ceiling tensor_cores() {
    TensorPeak peak = make_tensor_peak(*device_, stream(), scale_.tensor_square);
    return {.name = "bf16 tensor cores",
            .unit = "GFLOP/s",
            .work = peak.operations,
            .run = std::move(peak.run),
            .why_not = std::move(peak.why_not)};
  }

 private:
  Scale scale_;
  std::unique_ptr<CudaDevice> device_ = make_cuda_device(0, Fill::zero);
  std::unique_ptr<CudaStream> stream_ = device_->make_stream();
  bool waits_ = true;
  std::unique_ptr<Table> table_;
  Buffer sink_ = device_->acquire(Category::scalars, Type::f32, {1});
  DeviceClock clock_{stream_->handle()};
};

// ---- Text

void print_head() {
  std::printf("kind\tname\tverdict\tseconds\trate\tunit\tceiling\tceiling_rate\tshare\tsamples_s\n");
}

void print(const char* kind, std::string_view name, const Ceiling& ceiling, const Measured& m) {
  fmt::print("{}\t{}\tmeasured\t{:.9g}\t{:.6g}\t{}\t{}\t{:.6g}\t{:.4f}\t{:.9g}\n", kind, name, m.seconds,
             m.rate * 1e-9, ceiling.unit, ceiling.name, m.ceiling_rate * 1e-9, m.share,
             fmt::join(m.samples, " "));
}

void print_without(const char* kind, std::string_view name, std::string_view verdict) {
  fmt::print("{}\t{}\t{}\t\t\t\t\t\t\t\n", kind, name, verdict);
}

// ---- Kernels

HashSum digest(Device& device, Table& table, const KernelCase& row, const CaseSizes& sizes) {
  CaseMemory memory(device);
  table.run(row.make(memory, sizes));
  return memory.digest();
}

bool has_the_hosts_bits(Bench& bench, const KernelCase& row) {
  const auto host = make_host_device(Fill::zero);
  const auto table = make_host_table(*host, {.threads = 1, .max_sequence = kEvenSizes.sequence});
  return std::ranges::all_of(std::array{kOddSizes, kEvenSizes}, [&](const CaseSizes& sizes) {
    return digest(bench.device(), bench.table(), row, sizes) == digest(*host, *table, row, sizes);
  });
}

// True where the row counts.
bool print_kernel(Bench& bench, const KernelCase& row) {
  if (!has_the_hosts_bits(bench, row)) {
    print_without("kernel", row.name, "INVALID: bits differ from the host's");
    return false;
  }
  try {
    CaseMemory memory(bench.device());
    const Call call = row.make(memory, bench.scale().sizes);
    const double operations = operations_of(call);
    const double work = operations > 0.0 ? operations : bytes_moved(call);
    const Ceiling ceiling = operations > 0.0 ? bench.fma() : bench.copy(work);
    print("kernel", row.name, ceiling, bench.measure(ceiling, work, call));
  } catch (const Error& error) {  // too little memory for the row and for its ceiling
    if (error.code() != Exit::unavailable) throw;
    print_without("kernel", row.name, std::string("not measured: ") + error.what());
  }
  return true;
}

// ---- Products of square matrices

struct Square {
  const char* name;
  Transpose a_stored, b_stored;
  Type weights;
};
constexpr Square kSquares[] = {
    {"gemm NT", Transpose::no, Transpose::yes, Type::f32},
    {"gemm NN", Transpose::no, Transpose::no, Type::f32},
    {"gemm TN", Transpose::yes, Transpose::no, Type::f32},
    {"gemm NT bf16", Transpose::no, Transpose::yes, Type::bf16},
    {"gemm NN bf16", Transpose::no, Transpose::no, Type::bf16},
};

std::vector<float> numbers_of(const View& view) {
  if (view.type() == Type::bf16) {
    const HostView<bf16> x(view);
    std::vector<float> wide;
    for (const bf16 value : x) wide.push_back(widen(value));
    return wide;
  }
  const HostView<float> x(view);
  return {x.begin(), x.end()};
}

// Elements spread over the whole result are the contract's chains, bit for bit.
bool is_the_chain(const Gemm& call) {
  const std::vector<float> a = numbers_of(call.a), b = numbers_of(call.b), c = numbers_of(call.c);
  constexpr int64_t kSamples = 64;
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const int64_t at = sample * (call.m * call.n - 1) / (kSamples - 1);
    const int64_t row = at / call.n, column = at % call.n;
    float sum = 0.0F;
    for (int64_t first = 0; first < call.k; first += kPanelDepth) {
      float chain = 0.0F;
      for (int64_t k = first; k < std::min(call.k, first + kPanelDepth); ++k) {
        const int64_t in_a = call.a_stored == Transpose::yes ? k * call.m + row : row * call.k + k;
        const int64_t in_b = call.b_stored == Transpose::yes ? column * call.k + k : k * call.n + column;
        chain = std::fma(a[static_cast<size_t>(in_a)], b[static_cast<size_t>(in_b)], chain);
      }
      sum = first == 0 ? chain : sum + chain;
    }
    if (sum != c[static_cast<size_t>(at)]) return false;
  }
  return true;
}

bool print_square(Bench& bench, const Square& square) {
  const int64_t n = bench.scale().square;
  const std::string name = fmt::format("{} {}", square.name, n);
  CaseMemory memory(bench.device());
  Gemm call;
  call.a = memory.numbers(Type::f32, n * n);
  call.b = memory.numbers(square.weights, n * n);
  call.c = memory.space(Type::f32, n * n);
  call.a_stored = square.a_stored;
  call.b_stored = square.b_stored;
  call.m = call.n = call.k = n;
  bench.table().run(call);
  if (!is_the_chain(call)) {
    print_without("product", name, "INVALID: not the contract's chains");
    return false;
  }
  const Ceiling ceiling = bench.fma();
  print("product", name, ceiling, bench.measure(ceiling, operations_of(call), call));
  return true;
}

// A ceiling beside itself.
void print_ceiling(const Bench& bench, const Ceiling& ceiling) {
  if (!ceiling.run) return print_without("ceiling", ceiling.name, "not measured: " + ceiling.why_not);
  print("ceiling", ceiling.name, ceiling, bench.measure(ceiling, ceiling.work, ceiling.run));
}

Exit run(const Scale& scale) {
  static_cast<void>(find_gpus());
  Bench bench(scale);
  print_head();
  print_ceiling(bench, bench.copy(static_cast<double>(scale.copied)));
  print_ceiling(bench, bench.fma());
  print_ceiling(bench, bench.tensor_cores());
  bool valid = true;
  for (const Square& square : kSquares) valid = print_square(bench, square) && valid;
  for (const KernelCase& row : kernel_cases()) valid = print_kernel(bench, row) && valid;
  return valid ? Exit::pass : Exit::bits;
}

}  // namespace
}  // namespace zp::bench

int main(int count, char** words) {
  using namespace zp;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // rows of a run that is ended are not lost
  try {
    const bool tiny = count == 2 && std::string_view(words[1]) == "tiny";
    if (count > 1 && !tiny) fail(Exit::usage, "usage: cuda_rates [tiny]");
    return static_cast<int>(bench::run(tiny ? bench::kTiny : bench::kFull));
  } catch (const Error& error) {
    std::fprintf(stderr, "cuda_rates: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_rates: %s\n", error.what());
    return static_cast<int>(Exit::internal);
  }
}
