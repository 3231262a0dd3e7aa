// Vendor arithmetic: matrix products by cuBLASLt, everything else by kernels of our own.
//
// [Note: vendor arithmetic] A Gemm keeps its shapes, layouts and names, and gives up the order of its sums.
// Where `operands` is bf16, both operands are bf16: one of fp32 is first rounded to it, to nearest even;
// products and sums are then those of CUBLAS_COMPUTE_32F on bf16, on tensor cores. Where it is fp32, operands
// are fp32 and the compute type is the same, without TF32. C is fp32; to accumulate, it is added once, to the
// finished sum (beta = 1). The algorithm is the first that cuBLASLt's heuristic names for a shape, with a
// workspace of kVendorWorkspace bytes and the alignment that the options state, not that of one address: so
// it is the same on every rank and for the reference. It follows from device and library version, and so do
// the bits. Sums that split k are added out of place in fp32, or not split (no reduction in place).
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"

namespace zp::kernels {

inline constexpr Bytes kVendorWorkspace{32 << 20};

struct VendorOptions {
  cudaStream_t stream = nullptr;  // that of `own`
  // Returns when everything is over that was put there; empty: waits within CUDA.
  std::function<void()> finish = {};
  Type operands = Type::bf16;
  // Elements of the largest operand A, and of the largest fp32 operand B, that a Gemm will bring.
  int64_t largest_a = 0, largest_b = 0;
  // Every matrix begins at a multiple of so many elements, a power of two, from an address of 256 bytes.
  int64_t alignment = 1;
};

// Bytes of Category::workspace that make_vendor_table acquires, in one buffer: kVendorWorkspace, and where
// operands are bf16, room for both, each rounded up to 256 bytes.
Bytes vendor_workspace(const VendorOptions& options);

class VendorTable : public Table {
 public:
  // A line for each shape that was asked for: the algorithm that was chosen for it.
  virtual std::vector<std::string> choices() const = 0;
};

// `own` runs every call that is no matrix product, and rounds operands; it must be make_cuda_table's for the
// same stream and device, whose rules hold here too. Throws (unavailable) where there is no cuBLASLt, or none
// of its algorithms does what is asked.
std::unique_ptr<VendorTable> make_vendor_table(std::unique_ptr<Table> own, Device& device,
                                               const VendorOptions& options);

// Name and version of the library. Throws as make_vendor_table does.
std::string vendor_library();

}  // namespace zp::kernels
