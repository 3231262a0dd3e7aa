// What the kernel tests share: every host table (ISA and thread count) that this machine can run, test data
// with both zeros and subnormals in it, and comparison by bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/random.hpp"
#include "kernels/kernels.hpp"

namespace zp::kernels {

struct Host {
  Isa isa;
  int threads;
};

inline std::string text_of(const Host& host) {
  const std::string isa = host.isa == Isa::avx512 ? "avx512" : host.isa == Isa::avx2 ? "avx2" : "portable";
  return isa + " threads " + std::to_string(host.threads);
}

inline bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

inline std::vector<Host> hosts() {
  std::vector<Host> all;
  for (const int threads : {1, 2, 3}) all.push_back({Isa::portable, threads});
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    for (const int threads : {1, 2, 3}) all.push_back({Isa::avx2, threads});
  }
  if (has_avx512()) {
    for (const int threads : {1, 2, 3}) all.push_back({Isa::avx512, threads});
  }
#endif
  return all;
}

// Memory and kernels of one host; fresh memory is NaN, so that nothing unwritten passes for a result.
class Bench {
 public:
  explicit Bench(const Host& host, int64_t max_sequence = 0)
      : device_(make_host_device(Fill::nan)),
        table_(make_host_table(*device_,
                               {.threads = host.threads, .max_sequence = max_sequence, .isa = host.isa})) {}

  template <class T>
  View put(const std::vector<T>& values) {
    const View view = space(type_of<T>, static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), view.write<T>());
    return view;
  }
  // Room for a result.
  View space(Type type, int64_t length) {
    buffers_.push_back(device_->acquire(Category::activations, type, {length}));
    return buffers_.back().all();
  }
  void run(const Call& call) { table_->run(call); }

 private:
  std::unique_ptr<Device> device_;
  std::vector<Buffer> buffers_;
  std::unique_ptr<Table> table_;
};

template <class T>
std::vector<T> values_of(const View& view) {
  const T* p = view.read<T>();
  return std::vector<T>(p, p + view.length().n);
}

// About normal; one in eight a zero of either sign, one in sixteen subnormal.
inline std::vector<float> data(int64_t length, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(length));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t kind = random_bits(seed + 1, i) % 16;
    values[i] = random_normal(seed, i, 1.0F);
    if (kind < 2) values[i] = kind == 0 ? 0.0F : -0.0F;
    if (kind == 2) values[i] *= 0x1p-130F;
  }
  return values;
}

inline std::vector<bf16> rounded(const std::vector<float>& values) {
  std::vector<bf16> halves;
  halves.reserve(values.size());
  for (const float x : values) halves.push_back(round_to_bf16(x));
  return halves;
}

// Holds when both have the same bits; names the first element that differs.
inline testing::AssertionResult same_bits(const std::vector<float>& got, const std::vector<float>& expected) {
  if (got.size() != expected.size()) return testing::AssertionFailure() << "lengths differ";
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<uint32_t>(got[i]) != std::bit_cast<uint32_t>(expected[i])) {
      return testing::AssertionFailure()
             << "element " << i << ": got " << std::hexfloat << got[i] << ", expected " << expected[i];
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace zp::kernels
