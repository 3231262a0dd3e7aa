// The host's table of kernels: chooses an ISA when it starts, owns the threads and the workspace.
#include <algorithm>
#include <string>

#include "harness/base/check.hpp"
#include "kernels/arguments.hpp"
#include "kernels/host/functions.hpp"

namespace zp::kernels {
namespace {

constexpr int kMostThreads = 1024;

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

HostFunctions functions_for(Isa isa) {
  if (isa == Isa::avx512 && !has_avx512()) {
    fail(Exit::unavailable,
         "kernels for AVX-512: this processor lacks F, DQ, BW or VL; the others give the same bits");
  }
  if (isa == Isa::avx2 && !has_avx2()) {
    fail(Exit::unavailable,
         "kernels for AVX2: this processor lacks AVX2 or FMA; the portable ones give the same bits");
  }
#if defined(__x86_64__)
  if (isa == Isa::avx512 || (isa == Isa::best && has_avx512())) return avx512::functions();
  if (isa != Isa::portable && has_avx2()) return avx2::functions();
#endif
  return portable::functions();
}

int checked_threads(int threads) {
  if (threads < 1 || threads > kMostThreads) {
    fail(Exit::usage, "kernel threads: " + std::to_string(threads) + " asked for; 1 to " +
                          std::to_string(kMostThreads) + " are possible");
  }
  return threads;
}

class HostTable final : public Table {
 public:
  HostTable(Device& device, const HostOptions& options)
      : functions_(functions_for(options.isa)),
        pool_(checked_threads(options.threads)),
        workspace_(device.acquire(Category::workspace, Type::f32, {host_workspace(options).n / 4})) {
    context_.workspace = workspace_.all().write<float>();
    context_.workspace_floats = workspace_.length().n;
    context_.options = options;
    if (functions_.contracts()) {
      fail(Exit::unavailable, "kernels: the compiler fused products and sums; build with -ffp-contract=off");
    }
  }

  void set_poll(const std::function<void()>& poll) override { pool_.set_poll(poll); }

  void run(const Call& call) override {
    require_arguments(call);
    std::visit(
        [this]<class C>(const C& one) { static_cast<const HostFunction<C>&>(functions_).run(context_, one); },
        call);
  }

 private:
  HostFunctions functions_;
  Pool pool_;
  Buffer workspace_;
  HostContext context_{.pool = pool_, .workspace = nullptr, .workspace_floats = 0, .options = {}};
};

}  // namespace

Bytes host_workspace(const HostOptions& options) {
  const int64_t threads = options.threads;
  const int64_t gemm = kPanelDepth * (kPanelColumns + threads * kPanelRows);
  int64_t attention = 0;
  if (options.max_sequence > 0) {
    const int64_t columns = (options.max_sequence + 31) / 32 * 32;
    attention = threads *
                (2 * std::min(columns, kPanelDepth) * (columns + 16) + (columns + kStripRows) * kPanelDepth);
  }
  return {4 * std::max(gemm, attention)};
}

std::unique_ptr<Table> make_host_table(Device& device, const HostOptions& options) {
  require(options.max_sequence >= 0, "an attention row has no negative length");
  return std::make_unique<HostTable>(device, options);
}

}  // namespace zp::kernels
