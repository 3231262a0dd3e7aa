// What a GPT and its kernels hold from init to end beside the model states.
#include "harness/theory/activations.hpp"

#include <algorithm>

namespace zp::theory {
namespace {

constexpr Bytes kFp32 = size_of(Type::f32);

}  // namespace

// Stored in fp32, with R rows of width w, h heads, L layers, V words. Statistics of a row (mean, 1/std,
// maximum, sum) are one number each; scores are not kept (design 3.2), so nothing grows with T².
Bytes gpt_activations(const GptShape& s) {
  const int64_t rows = s.rows();
  const int64_t stream = (s.layers + 1) * s.width;                // input of every block and of the head
  const int64_t norms = 2 * (s.width + 2);                        // two a block: output, mean, 1/std
  const int64_t attention = 3 * s.width + 2 * s.heads + s.width;  // qkv, row statistics, output
  const int64_t middle = s.width;                                 // the stream between attention and MLP
  const int64_t mlp = 2 * 4 * s.width;                            // before and after GELU
  const int64_t blocks = s.layers * (norms + attention + middle + mlp);
  const int64_t head = (s.width + 2) + s.vocabulary + 3;  // norm, logits, row maximum, sum and loss
  const int64_t gradients = (1 + 1 + 4) * s.width;        // of the stream, of w columns, of 4w columns
  const int64_t loss = 1;
  return Elements{rows * (stream + blocks + head + gradients) + loss} * kFp32;
}

Bytes gpt_data(const GptShape& s) { return Elements{2 * s.rows()} * size_of(Type::i32); }

Bytes gpt_gradient_image(const GptShape& s, const Recipe& recipe) {
  if (recipe.grads == Type::f32) return {0};
  const int64_t tables = (s.vocabulary + s.positions) * s.width;
  const int64_t largest_linear = 4 * s.width * s.width;
  return Elements{std::max(tables, largest_linear)} * kFp32;
}

// One buffer for whichever needs more: a packed panel of 512 x 1024 for all and one of 192 x 512 a thread
// (GEMM), or for each thread two blocks of min(T, 512) x (T + 16) and a strip of (T + 72) x 512 (attention;
// T rounded up to 32).
Bytes host_kernel_workspace(int threads, int64_t max_sequence) {
  constexpr int64_t kDepth = 512;
  constexpr int64_t kColumns = 1024;
  constexpr int64_t kRows = 192;
  constexpr int64_t kStrip = 72;
  const int64_t gemm = kDepth * kColumns + threads * kRows * kDepth;
  int64_t attention = 0;
  if (max_sequence > 0) {
    const int64_t row = (max_sequence + 31) / 32 * 32;
    attention = threads * (2 * std::min(row, kDepth) * (row + 16) + (row + kStrip) * kDepth);
  }
  return Elements{std::max(gemm, attention)} * kFp32;
}

HeldLines gpt_constants(const GptShape& s, const Recipe& recipe, Bytes kernel_workspace) {
  HeldLines lines{{Category::activations, gpt_activations(s)}, {Category::data, gpt_data(s)}};
  const Bytes workspace = gpt_gradient_image(s, recipe) + kernel_workspace;
  if (workspace.n > 0) lines[Category::workspace] = workspace;
  return lines;
}

HeldLines synthetic_constants(Bytes kernel_workspace) {
  HeldLines lines;
  if (kernel_workspace.n > 0) lines[Category::workspace] = kernel_workspace;
  return lines;
}

}  // namespace zp::theory
