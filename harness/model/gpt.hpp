// GPT-2 architecture without dropout: learned positions, pre-norm blocks of causal attention and a tanh-GELU
// MLP of four times the width, biases on every linear but the head, which is untied. All arithmetic is in the
// kernels; what is allocated and called stands in gpt.cpp. Private to this folder.
#pragma once

#include <vector>

#include "harness/model/architectures.hpp"

namespace zp::gpt {

// Tensors of each unit, in order.
enum EmbeddingTensor { kToken, kPosition };
enum BlockTensor {
  kNorm1,
  kNorm1Bias,
  kQkv,
  kQkvBias,
  kOut,
  kOutBias,
  kNorm2,
  kNorm2Bias,
  kUp,
  kUpBias,
  kDown,
  kDownBias
};
enum HeadTensor { kHeadNorm, kHeadNormBias, kHead };
constexpr int kNoBias = -1;

// A linear's tensors and shape: weight (out, in), bias (out).
struct Linear {
  int weight = 0, bias = kNoBias;
  int64_t in = 0, out = 0;
};

// A unit's tensors within one view of the unit.
class Tensors {
 public:
  Tensors(View unit, const std::vector<Range>& where) : unit_(unit), where_(where) {}
  View operator[](int tensor) const { return unit_.part(where_.at(static_cast<size_t>(tensor))); }

 private:
  View unit_;
  const std::vector<Range>& where_;
};

// What a layer norm keeps: its output and each row's statistics.
struct NormBuffers {
  Buffer y, mean, rstd;
};

struct BlockBuffers {
  NormBuffers norm1, norm2;
  Buffer qkv, row_max, row_sum, attention, mid, up, gelu;
};

struct HeadBuffers {
  NormBuffers norm;
  Buffer logits, row_max, row_sum, row_loss, loss;
};

class Gpt final : public Model {
 public:
  explicit Gpt(const ModelParts& parts);

  void begin(int step, int number, const MicroBatch& tokens) override;
  void forward(int unit, View weights) override;
  void backward(int unit, View weights, View grads) override;
  float loss() const override { return *head_.loss.all().read<float>(); }

 private:
  void acquire(Device& device);
  Tensors tensors(int unit, View view, Type type) const;
  bool is_head(int unit) const { return unit == static_cast<int>(ranges_.size()) - 1; }

  void embed(const Tensors& weights);
  void embed_backward(const Tensors& grads);
  void block_forward(size_t block, const Tensors& weights);
  void block_backward(size_t block, const Tensors& weights, const Tensors& grads);
  void head_forward(const Tensors& weights);
  void head_backward(const Tensors& weights, const Tensors& grads);

  void norm_forward(const Tensors& weights, int gain, View x, const NormBuffers& to);
  void norm_backward(const Tensors& weights, const Tensors& grads, int gain, View x, const NormBuffers& kept,
                     kernels::Write write);
  void linear_forward(const Tensors& weights, const Linear& linear, View x, View y);
  void linear_backward(const Tensors& weights, const Tensors& grads, const Linear& linear, View x, View dy,
                       View dx);

  // Where a kernel writes the fp32 gradient of `grad`: there, or in the workspace behind `before`.
  View image_of(View grad, Elements before = {}) const;
  // Rounds the image to the gradient, where they are two.
  void store(View image, View grad);

  const ModelConfig config_;
  const BatchShape shape_;
  const Recipe recipe_;
  kernels::Table& kernels_;
  const int64_t rows_, width_;
  const Linear qkv_, out_, up_, down_, to_logits_;
  std::vector<std::vector<Range>> ranges_;  // by unit and tensor

  Buffer inputs_, targets_;
  std::vector<Buffer> x_;
  std::vector<BlockBuffers> blocks_;
  HeadBuffers head_;
  Buffer d_stream_, d_narrow_, d_wide_;
  Buffer image_;  // empty where gradients are fp32
};

}  // namespace zp::gpt
