// The one way to start a kernel, and pointers of views as kernels take them.
#pragma once

#include <cstdint>
#include <utility>

#include "harness/device/cuda_check.hpp"
#include "kernels/cuda/context.hpp"

namespace zp::kernels::cuda {

inline constexpr int kThreads = 256;  // of a block, where a kernel has no reason for another number

// Blocks in two directions, and threads of each block. No bit depends on any of them.
struct Grid {
  int64_t x = 1, y = 1;
  int threads = kThreads;
};

constexpr int64_t blocks_for(int64_t count, int64_t each) { return (count + each - 1) / each; }
constexpr int64_t at_most(int64_t count, int64_t most) { return count < most ? count : most; }

// Every block of a grid-stride loop gets several turns; this many fill the largest GPU of today.
inline constexpr int64_t kMostBlocks = 2048;
inline constexpr int64_t kMostInY = 65535;  // of CUDA

// No launch where the grid is empty.
template <class... P, class... A>
void launch(const Context& context, const Grid& grid, void (*kernel)(P...), A&&... arguments) {
  if (grid.x == 0 || grid.y == 0) return;
  require(grid.x < (int64_t{1} << 31) && grid.y <= kMostInY, "a kernel has no more blocks than CUDA has");
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), 1);
  config.blockDim = dim3(static_cast<unsigned>(grid.threads), 1, 1);
  config.stream = context.stream;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<A>(arguments)...));
}

// Device pointers to the first element, once transfers that write the buffer (output: also those that read
// it) are complete. T must be the view's type.
template <class T>
const T* input(const View& view) {
  if (view.empty()) return nullptr;
  require(view.type() == type_of<T>, "a view is read as the type it holds");
  return static_cast<const T*>(view.raw());
}
template <class T>
T* output(const View& view) {
  if (view.empty()) return nullptr;
  require(view.type() == type_of<T>, "a view is written as the type it holds");
  return static_cast<T*>(view.raw());
}

// body(zero) with a zero of the C++ type that `type` names.
template <class Body>
void with_type(Type type, const Body& body) {
  switch (type) {
    case Type::f32: return body(float{});
    case Type::bf16: return body(bf16{});
    case Type::i32:
    case Type::i64: break;
  }
  fail(Exit::internal, "a kernel was given integers for numbers");
}

}  // namespace zp::kernels::cuda
