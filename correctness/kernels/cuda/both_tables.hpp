// One table of kernels on the host and one of CUDA kernels, each with memory of its own that is NaN at first,
// and calls that are made for both of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>

#include "correctness/kernels/cuda/pinned_device.hpp"
#include "correctness/kernels/hosts.hpp"
#include "kernels/cuda/cuda_table.hpp"

namespace zp::kernels {

enum class Side { host, cuda };

// The same numbers on both sides.
struct Twin {
  View host, cuda;
  View of(Side side) const { return side == Side::host ? host : cuda; }
  Twin part(Range range) const { return {host.part(range), cuda.part(range)}; }
};

class BothTables {
 public:
  explicit BothTables(int64_t attention_rows = 0, int64_t max_sequence = 0)
      : host_memory_(make_host_device(Fill::nan)),
        host_(make_host_table(*host_memory_, {.threads = 1, .max_sequence = max_sequence})),
        cuda_(
            make_cuda_table(cuda_memory_, {.stream = stream_.get(), .max_attention_rows = attention_rows})) {}

  Device& host_memory() { return *host_memory_; }
  Device& cuda_memory() { return cuda_memory_; }
  Table& table(Side side) { return side == Side::host ? *host_ : *cuda_; }
  void wait() const { stream_.wait(); }

  // Room for a result. `shift` elements stand before it, so that vectors are not aligned.
  Twin space(Type type, int64_t length, int64_t shift = 0) {
    buffers_.push_back(host_memory_->acquire(Category::activations, type, {length + shift}));
    const View host = buffers_.back().part({{shift}, {length + shift}});
    buffers_.push_back(cuda_memory_.acquire(Category::activations, type, {length + shift}));
    return {host, buffers_.back().part({{shift}, {length + shift}})};
  }
  template <class T>
  Twin put(const std::vector<T>& values, int64_t shift = 0) {
    const Twin twin = space(type_of<T>, static_cast<int64_t>(values.size()), shift);
    for (const View& view : {twin.host, twin.cuda}) std::copy(values.begin(), values.end(), view.write<T>());
    return twin;
  }

  // make(side) is the call on that side's views.
  template <class Make>
  void run(const Make& make) {
    for (const Side side : {Side::host, Side::cuda}) table(side).run(make(side));
    wait();
  }

 private:
  std::unique_ptr<Device> host_memory_;
  PinnedDevice cuda_memory_;
  OwnStream stream_;
  std::deque<Buffer> buffers_;
  std::unique_ptr<Table> host_, cuda_;
};

// Holds when both sides have the same bits; names the first element that differs. NaN is NaN.
template <class T>
testing::AssertionResult same_bits(const Twin& twin) {
  const T *host = twin.host.read<T>(), *cuda = twin.cuda.read<T>();
  for (int64_t i = 0; i < twin.host.length().n; ++i) {
    if (std::memcmp(host + i, cuda + i, sizeof(T)) == 0) continue;
    if constexpr (std::is_same_v<T, float>) {
      if (std::isnan(host[i]) && std::isnan(cuda[i])) continue;
      return testing::AssertionFailure()
             << "element " << i << ": CUDA has " << std::hexfloat << cuda[i] << ", the host " << host[i];
    } else {
      return testing::AssertionFailure() << "element " << i;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace zp::kernels
