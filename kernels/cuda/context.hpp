// What a CUDA kernel's launcher is given, and the launchers, an overload per call. Each is defined in one
// *.cu; one that lacks a definition does not link. Arguments have been checked (kernels/arguments.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "kernels/kernels.hpp"

namespace zp::kernels::cuda {

// Small results that the host must hold. Whole numbers only: blocks add to them in any order.
struct alignas(64) HandedOver {
  unsigned long long limbs[6];    // of an exact sum, 32 bits each and their carries
  unsigned long long hash[2];     // low and high lane
  unsigned long long not_finite;  // elements
  unsigned long long refused;     // lowest number of an element that breaks a rule; all ones where none does
  unsigned long long outside;     // tokens outside their vocabulary, of all calls since it was looked at
};

struct Context {
  cudaStream_t stream = nullptr;
  std::function<void()> finish;   // waits for all work of the stream
  HandedOver* handed = nullptr;   // in device memory
  HandedOver* arrived = nullptr;  // pinned
  float* attention_rows = nullptr;
  int64_t max_attention_rows = 0;

  // Clears what is handed over by one call. Later work of the stream adds to it.
  void begin_hand_over() const;
  // What it holds, once all work of the stream is done. Throws (internal) where a token of this call or of an
  // earlier one lay outside its vocabulary.
  const HandedOver& hand_over() const;
};

inline constexpr unsigned long long kNoneRefused = ~0ULL;

void run(const Context& context, const Gemm& call);
void run(const Context& context, const AddBias& call);
void run(const Context& context, const BiasBackward& call);
void run(const Context& context, const LayerNormForward& call);
void run(const Context& context, const LayerNormBackward& call);
// dgain and dbias of layer norm, where they are asked for.
void run_columns(const Context& context, const LayerNormBackward& call);
void run(const Context& context, const AttentionForward& call);
void run(const Context& context, const AttentionBackward& call);
void run(const Context& context, const GeluForward& call);
void run(const Context& context, const GeluBackward& call);
void run(const Context& context, const Add& call);
void run(const Context& context, const EmbeddingForward& call);
void run(const Context& context, const EmbeddingBackward& call);
void run(const Context& context, const CrossEntropyForward& call);
void run(const Context& context, const CrossEntropyBackward& call);
void run(const Context& context, const Cast& call);
void run(const Context& context, const Fold& call);
void run(const Context& context, const ToFixed& call);
// Fold of int64, which is fixed point.
void run_integer_fold(const Context& context, const Fold& call);
void run(const Context& context, const AdamW& call);
void run(const Context& context, const Sgd& call);
void run(const Context& context, const SquareSum& call);
void run(const Context& context, const HashRun& call);
void run(const Context& context, const Initialize& call);
void run(const Context& context, const SyntheticGradient& call);

// Whether each of the tokens, i32, lies in the vocabulary: the next hand_over() throws where one does not.
void look_at_tokens(const Context& context, const View& tokens, int64_t vocabulary);

}  // namespace zp::kernels::cuda
