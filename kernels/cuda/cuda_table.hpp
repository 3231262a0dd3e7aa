// Every kernel of the contract on one CUDA device, with the bits of the host table.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "kernels/kernels.hpp"

namespace zp::kernels {

struct CudaTableOptions {
  cudaStream_t stream = nullptr;  // where every kernel runs, in the order of the calls
  // Returns when everything is over that was put there; empty: waits within CUDA.
  std::function<void()> finish = {};
  int64_t max_attention_rows = 0;  // largest batch·heads·sequence that attention backward will be asked for
};

// Bytes of Category::workspace that make_cuda_table acquires, in one buffer: 128 that are handed to the host,
// and one fp32 for each row of attention: 128 + 4·max_attention_rows.
Bytes cuda_workspace(const CudaTableOptions& options);

// Waits for nobody else who uses the views' buffers: make_ordered_table does (kernels/access.hpp). Views are
// of `device`'s memory, which must be memory of the CUDA device that is current whenever the table is made,
// used or destroyed. run() returns when the kernels of the call are on the stream, except for calls whose
// outcome the host must know: sums that it holds (SquareSum, HashRun), and numbers that may be refused
// (ToFixed). These wait for the stream, and say so where a token of an earlier call (embedding, cross
// entropy) lay outside its vocabulary; nothing outside a table is read or written for it. A CUDA call that
// fails is an Error(cuda) with CUDA's own words. `device` and the stream must outlive the table.
std::unique_ptr<Table> make_cuda_table(Device& device, const CudaTableOptions& options);

}  // namespace zp::kernels
