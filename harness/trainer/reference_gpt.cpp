// Forward and backward of the reference's GPT.
#include "harness/trainer/reference_gpt.hpp"

#include <utility>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/device/host_access.hpp"

namespace zp {
namespace {

using kernels::Transpose;
using kernels::Write;

// What forward leaves for the backward of a layer norm.
struct Norm {
  Buffer y, mean, rstd;
};

// What one block's forward leaves for its backward, in the order it is computed.
struct Block {
  Norm norm1;
  Buffer qkv, attended, row_max, row_sum;  // (R, 3w), (R, w), (batch, heads, sequence) twice
  Buffer middle;                           // (R, w): x after attention
  Norm norm2;
  Buffer up, gelu;  // (R, 4w)
  Buffer out;       // (R, w): x after the block
};

class Gpt final : public ReferenceGpt {
 public:
  Gpt(const ModelConfig& config, const BatchShape& shape, Type stored, Device& device,
      kernels::Table& kernels)
      : config_(config),
        shape_(shape),
        stored_(stored),
        device_(device),
        kernels_(kernels),
        rows_(shape.rows()),
        logits_weight_(config.tied ? "embeddings.token.weight" : "head.weight") {
    check_model(config);
    require(shape.batch > 0 && shape.sequence > 0, "a micro-batch holds tokens");
    require(shape.sequence <= config.positions, "a sequence is no longer than the position table");
    acquire_all();
  }

  float gradient(const MicroBatch& tokens, const Tensors& weights, const Tensors& grads) override {
    weights_ = &weights;
    grads_ = &grads;
    copy_tokens(tokens.inputs, inputs_);
    copy_tokens(tokens.targets, targets_);
    const float loss = forward();
    backward();
    return loss;
  }

 private:
  Buffer floats(int64_t length) { return device_.acquire(Category::activations, Type::f32, {length}); }
  Norm norm() { return {.y = floats(rows_ * config_.width), .mean = floats(rows_), .rstd = floats(rows_)}; }

  void acquire_all() {
    const int64_t width = config_.width, statistics = shape_.batch * config_.heads * shape_.sequence;
    inputs_ = device_.acquire(Category::data, Type::i32, {rows_});
    targets_ = device_.acquire(Category::data, Type::i32, {rows_});
    embedded_ = floats(rows_ * width);
    for (int64_t i = 0; i < config_.layers; ++i) {
      Block block;
      block.norm1 = norm();
      block.qkv = floats(rows_ * 3 * width);
      block.attended = floats(rows_ * width);
      block.row_max = floats(statistics);
      block.row_sum = floats(statistics);
      block.middle = floats(rows_ * width);
      block.norm2 = norm();
      block.up = floats(rows_ * 4 * width);
      block.gelu = floats(rows_ * 4 * width);
      block.out = floats(rows_ * width);
      blocks_.push_back(std::move(block));
    }
    head_norm_ = norm();
    logits_ = floats(rows_ * config_.vocabulary);
    row_max_ = floats(rows_);
    row_sum_ = floats(rows_);
    row_loss_ = floats(rows_);
    loss_ = floats(1);
    dx_ = floats(rows_ * width);
    dnarrow_ = floats(rows_ * width);
    dwide_ = floats(rows_ * 4 * width);
  }

  void copy_tokens(const std::vector<int32_t>& tokens, const Buffer& to) const {
    require(static_cast<int64_t>(tokens.size()) == rows_,
            "a micro-batch has the shape it was announced with");
    for (const int32_t token : tokens) {
      require(token >= 0 && token < config_.vocabulary, "a token lies in the vocabulary");
    }
    write_from_host<int32_t>(to.all(), tokens);
  }

  View weight(const std::string& name) const { return weights_->at(name).all(); }
  View grad(const std::string& name) const { return grads_->at(name).all(); }

  // y = x·Wᵀ + b with W (out, in).
  void linear(const Buffer& x, const std::string& layer, View y, int64_t in, int64_t out) {
    kernels_.run(kernels::Gemm{.a = x.all(),
                               .b = weight(layer + ".weight"),
                               .c = y,
                               .a_stored = Transpose::no,
                               .b_stored = Transpose::yes,
                               .m = rows_,
                               .n = out,
                               .k = in,
                               .write = Write::overwrite});
    kernels_.run(
        kernels::AddBias{.x = y, .bias = weight(layer + ".bias"), .y = y, .rows = rows_, .columns = out});
  }

  // dW = dyᵀ·x.
  void weight_gradient(const Buffer& x, View dy, const std::string& tensor, int64_t in, int64_t out) {
    kernels_.run(kernels::Gemm{.a = dy,
                               .b = x.all(),
                               .c = grad(tensor),
                               .a_stored = Transpose::yes,
                               .b_stored = Transpose::no,
                               .m = out,
                               .n = in,
                               .k = rows_,
                               .write = Write::overwrite});
  }

  // dx = dy·W.
  void input_gradient(View dy, const std::string& tensor, View dx, int64_t in, int64_t out) {
    kernels_.run(kernels::Gemm{.a = dy,
                               .b = weight(tensor),
                               .c = dx,
                               .a_stored = Transpose::no,
                               .b_stored = Transpose::no,
                               .m = rows_,
                               .n = in,
                               .k = out,
                               .write = Write::overwrite});
  }

  void linear_backward(const Buffer& x, View dy, const std::string& layer, View dx, int64_t in, int64_t out) {
    kernels_.run(
        kernels::BiasBackward{.dy = dy, .dbias = grad(layer + ".bias"), .rows = rows_, .columns = out});
    weight_gradient(x, dy, layer + ".weight", in, out);
    input_gradient(dy, layer + ".weight", dx, in, out);
  }

  void normalise(const Buffer& x, const std::string& layer, const Norm& to) {
    kernels_.run(kernels::LayerNormForward{.x = x.all(),
                                           .gain = weight(layer + ".weight"),
                                           .bias = weight(layer + ".bias"),
                                           .y = to.y.all(),
                                           .mean = to.mean.all(),
                                           .rstd = to.rstd.all(),
                                           .rows = rows_,
                                           .width = config_.width});
  }

  // The gradient of the layer norm's input goes, or is added, to dx_.
  void normalise_backward(const Buffer& x, const std::string& layer, const Norm& from, View dy, Write write) {
    kernels_.run(kernels::LayerNormBackward{.x = x.all(),
                                            .gain = weight(layer + ".weight"),
                                            .mean = from.mean.all(),
                                            .rstd = from.rstd.all(),
                                            .dy = dy,
                                            .dx = dx_.all(),
                                            .dgain = grad(layer + ".weight"),
                                            .dbias = grad(layer + ".bias"),
                                            .rows = rows_,
                                            .width = config_.width,
                                            .write = write});
  }

  float forward() {
    kernels_.run(kernels::EmbeddingForward{.tokens = inputs_.all(),
                                           .token = weight("embeddings.token.weight"),
                                           .position = weight("embeddings.position.weight"),
                                           .x = embedded_.all(),
                                           .rows = rows_,
                                           .sequence = shape_.sequence,
                                           .width = config_.width});
    for (size_t i = 0; i < blocks_.size(); ++i) block_forward(i);
    const int64_t width = config_.width, vocabulary = config_.vocabulary;
    normalise(input_of(blocks_.size()), "head.norm", head_norm_);
    kernels_.run(kernels::Gemm{.a = head_norm_.y.all(),
                               .b = weight(logits_weight_),
                               .c = logits_.all(),
                               .a_stored = Transpose::no,
                               .b_stored = Transpose::yes,
                               .m = rows_,
                               .n = vocabulary,
                               .k = width,
                               .write = Write::overwrite});
    kernels_.run(kernels::CrossEntropyForward{.logits = logits_.all(),
                                              .targets = targets_.all(),
                                              .row_max = row_max_.all(),
                                              .row_sum = row_sum_.all(),
                                              .row_loss = row_loss_.all(),
                                              .loss = loss_.all(),
                                              .rows = rows_,
                                              .vocabulary = vocabulary});
    return HostView<float>(loss_.all())[0];
  }

  void block_forward(size_t i) {
    const std::string name = "block." + std::to_string(i);
    const int64_t width = config_.width;
    const Buffer& x = input_of(i);
    Block& block = blocks_[i];
    normalise(x, name + ".norm1", block.norm1);
    linear(block.norm1.y, name + ".qkv", block.qkv.all(), width, 3 * width);
    kernels_.run(kernels::AttentionForward{.qkv = block.qkv.all(),
                                           .out = block.attended.all(),
                                           .row_max = block.row_max.all(),
                                           .row_sum = block.row_sum.all(),
                                           .batch = shape_.batch,
                                           .sequence = shape_.sequence,
                                           .width = width,
                                           .heads = config_.heads});
    linear(block.attended, name + ".out", block.middle.all(), width, width);
    kernels_.run(kernels::Add{.a = x.all(), .b = block.middle.all(), .y = block.middle.all()});
    normalise(block.middle, name + ".norm2", block.norm2);
    linear(block.norm2.y, name + ".up", block.up.all(), width, 4 * width);
    kernels_.run(kernels::GeluForward{.x = block.up.all(), .y = block.gelu.all()});
    linear(block.gelu, name + ".down", block.out.all(), 4 * width, width);
    kernels_.run(kernels::Add{.a = block.middle.all(), .b = block.out.all(), .y = block.out.all()});
  }

  void backward() {
    const int64_t width = config_.width, vocabulary = config_.vocabulary;
    kernels_.run(kernels::CrossEntropyBackward{.logits = logits_.all(),
                                               .targets = targets_.all(),
                                               .row_max = row_max_.all(),
                                               .row_sum = row_sum_.all(),
                                               .rows = rows_,
                                               .vocabulary = vocabulary});
    weight_gradient(head_norm_.y, logits_.all(), logits_weight_, width, vocabulary);
    input_gradient(logits_.all(), logits_weight_, dnarrow_.all(), width, vocabulary);
    if (config_.tied) round_to_stored(grad(logits_weight_));
    normalise_backward(input_of(blocks_.size()), "head.norm", head_norm_, dnarrow_.all(), Write::overwrite);
    for (size_t i = blocks_.size(); i > 0; --i) block_backward(i - 1);
    kernels_.run(
        kernels::EmbeddingBackward{.tokens = inputs_.all(),
                                   .dx = dx_.all(),
                                   .dtoken = grad("embeddings.token.weight"),
                                   .dposition = grad("embeddings.position.weight"),
                                   .rows = rows_,
                                   .sequence = shape_.sequence,
                                   .width = width,
                                   .write_tokens = config_.tied ? Write::accumulate : Write::overwrite});
  }

  void round_to_stored(View values) {
    if (stored_ == Type::f32) return;
    const Buffer rounded = device_.acquire(Category::workspace, stored_, values.length());
    kernels_.run(kernels::Cast{.from = values, .to = rounded.all()});
    kernels_.run(kernels::Cast{.from = rounded.all(), .to = values});
  }

  // dx_ holds the gradient of the block's output before, of its input after.
  void block_backward(size_t i) {
    const std::string name = "block." + std::to_string(i);
    const int64_t width = config_.width;
    const Block& block = blocks_[i];
    const View dwide = dwide_.all(), dqkv = dwide_.part({{0}, {rows_ * 3 * width}}), dnarrow = dnarrow_.all();
    linear_backward(block.gelu, dx_.all(), name + ".down", dwide, 4 * width, width);
    kernels_.run(kernels::GeluBackward{.x = block.up.all(), .dy = dwide, .dx = dwide});
    linear_backward(block.norm2.y, dwide, name + ".up", dnarrow, width, 4 * width);
    normalise_backward(block.middle, name + ".norm2", block.norm2, dnarrow, Write::accumulate);
    linear_backward(block.attended, dx_.all(), name + ".out", dnarrow, width, width);
    kernels_.run(kernels::AttentionBackward{.qkv = block.qkv.all(),
                                            .row_max = block.row_max.all(),
                                            .row_sum = block.row_sum.all(),
                                            .dout = dnarrow,
                                            .dqkv = dqkv,
                                            .batch = shape_.batch,
                                            .sequence = shape_.sequence,
                                            .width = width,
                                            .heads = config_.heads});
    linear_backward(block.norm1.y, dqkv, name + ".qkv", dnarrow, width, 3 * width);
    normalise_backward(input_of(i), name + ".norm1", block.norm1, dnarrow, Write::accumulate);
  }

  // Of block i; of the head for the number of blocks.
  const Buffer& input_of(size_t i) const { return i == 0 ? embedded_ : blocks_[i - 1].out; }

  ModelConfig config_;
  BatchShape shape_;
  Type stored_;
  Device& device_;
  kernels::Table& kernels_;
  int64_t rows_;
  std::string logits_weight_;  // name of the tensor that makes logits
  const Tensors* weights_ = nullptr;
  const Tensors* grads_ = nullptr;

  Buffer inputs_, targets_;
  Buffer embedded_;  // (R, w)
  std::vector<Block> blocks_;
  Norm head_norm_;
  Buffer logits_;  // (R, vocabulary); its own gradient in backward
  Buffer row_max_, row_sum_, row_loss_, loss_;
  Buffer dx_;               // (R, w): gradient of the residual stream
  Buffer dnarrow_, dwide_;  // (R, w), (R, 4w): gradients inside a block
};

}  // namespace

std::unique_ptr<ReferenceGpt> make_reference_gpt(const ModelConfig& config, const BatchShape& shape,
                                                 Type stored, Device& device, kernels::Table& kernels) {
  return std::make_unique<Gpt>(config, shape, stored, device, kernels);
}

}  // namespace zp
