// GPT-2 architecture without dropout: learned positions, pre-norm blocks of causal attention and a tanh-GELU
// MLP of four times the width, biases on every linear but the head, whose weight may be the token table. All
// arithmetic is in the kernels; what is allocated and called stands in gpt.cpp. Private to this folder.
#pragma once

#include <algorithm>
#include <vector>

#include "harness/device/host_access.hpp"
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
  kDownBias,
  kBlockTensors
};
enum HeadTensor { kHeadNorm, kHeadNormBias, kHead };

// A linear's tensors and shape: weight (out, in), bias (out).
struct Linear {
  int weight = 0, bias = 0;
  int64_t in = 0, out = 0;
};

// A unit's tensors within one view of the unit, counted from the `first` of them; gradients of a frozen unit
// are in no view, and empty.
class Tensors {
 public:
  Tensors(View unit, const std::vector<Range>& where, int first = 0)
      : unit_(unit), where_(where), first_(first) {}
  bool empty() const { return unit_.empty(); }
  View operator[](int tensor) const {
    return empty() ? View()
                   : unit_.part(where_.at(static_cast<size_t>(first_) + static_cast<size_t>(tensor)));
  }
  // Those of one block of several.
  Tensors of_block(int64_t block) const {
    return {unit_, where_, first_ + static_cast<int>(block * kBlockTensors)};
  }

 private:
  View unit_;
  const std::vector<Range>& where_;
  int first_;
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
  void forward(int unit, const UnitViews& weights) override;
  void backward(int unit, const UnitViews& weights, const UnitViews& grads) override;
  float loss() const override { return HostView<float>(head_.loss.all())[0]; }

 private:
  void acquire(Device& device);
  Tensors tensors(int unit, View view, Type type) const;
  bool is_head(int unit) const { return unit == static_cast<int>(ranges_.size()) - 1; }
  // The weight of the head, or its gradient: the unit's own, or in the embeddings.
  View head_weight(const UnitViews& views, Type type) const;
  // Blocks of a unit: the first of them, and the one behind the last.
  int64_t first_block(int unit) const { return (unit - 1) * config_.unit_blocks; }
  int64_t end_block(int unit) const { return std::min(unit * config_.unit_blocks, config_.layers); }

  void embed(const Tensors& weights);
  void embed_backward(const Tensors& grads);
  void block_forward(size_t block, const Tensors& weights);
  void block_backward(size_t block, const Tensors& weights, const Tensors& grads);
  void head_forward(const Tensors& weights, View weight);
  void head_backward(const Tensors& weights, View weight, const Tensors& grads, View dweight);

  void norm_forward(const Tensors& weights, int gain, View x, const NormBuffers& to);
  void norm_backward(const Tensors& weights, const Tensors& grads, int gain, View x, const NormBuffers& kept,
                     kernels::Write write);
  void linear_forward(const Tensors& weights, const Linear& linear, View x, View y);
  void linear_backward(const Tensors& weights, const Tensors& grads, const Linear& linear, View x, View dy,
                       View dx);
  // y = x·weightᵀ; dweight = dyᵀ·x, where it is asked for; dx = dy·weight. weight: (out, in).
  void product(View weight, View x, View y, int64_t in, int64_t out);
  void product_backward(View weight, View dweight, View x, View dy, View dx, int64_t in, int64_t out);

  // Where a kernel writes the fp32 gradient of `grad`: there, or in the workspace behind `before`.
  View image_of(View grad, Elements before = {}) const;
  // Rounds the image to the gradient, where they are two.
  void store(View image, View grad);

  const ModelConfig config_;
  const BatchShape shape_;
  const Recipe recipe_;
  kernels::Table& kernels_;
  const int64_t rows_, width_;
  const Linear qkv_, out_, up_, down_;
  std::vector<std::vector<Range>> ranges_;  // by unit and tensor

  Buffer inputs_, targets_;
  std::vector<Buffer> x_;
  std::vector<BlockBuffers> blocks_;
  HeadBuffers head_;
  Buffer d_stream_, d_narrow_, d_wide_;
  Buffer image_;  // empty where gradients are fp32
};

}  // namespace zp::gpt
