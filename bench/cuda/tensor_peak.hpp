// The most that a GPU's tensor cores do: a product of bf16 matrices, added up in fp32, by cuBLASLt, whose
// library is opened where there is one.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

#include "harness/device/device.hpp"

namespace zp::bench {

struct TensorPeak {
  std::function<void()> run;  // puts one product on the stream; empty: `why_not` says why
  std::string why_not;
  double operations = 0;  // floating-point, of one product
};

// Of matrices size x size, with memory from `device`, which must outlive it.
TensorPeak make_tensor_peak(Device& device, cudaStream_t stream, int64_t size);

}  // namespace zp::bench
