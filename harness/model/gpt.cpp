// Forward and backward of a GPT, unit by unit, as calls of kernels.
//
// [Note: what one micro-batch allocates and calls]
// B sequences of T tokens, R = B·T rows, w width, h heads, L layers, V vocabulary, P positions. Linears are
// stored (out, in). All buffers are acquired when the model is made and held until its end; a step acquires
// nothing.
//
//   activations, fp32                                              elements
//     stream      x.0 … x.L: input of each block, and of the head  L+1 times R·w
//     each block  norm1 R·w, norm1.mean R, norm1.rstd R, qkv R·3w,
//                 row_max R·h, row_sum R·h, attention R·w,
//                 mid R·w, norm2 R·w, norm2.mean R, norm2.rstd R,
//                 up (before GELU) R·4w, gelu R·4w                 L times R·(15w + 2h + 4)
//     head        norm R·w, mean R, rstd R, logits R·V,
//                 row_max R, row_sum R, row_loss R, loss 1         R·(w + V + 5) + 1
//     gradients   d_stream (of x and mid) R·w, d_narrow R·w,
//                 d_wide R·4w                                      R·6w, shared by all units
//   data, int32   inputs R, targets R                              2R
//   workspace, fp32, only where the recipe's gradients are not fp32: one buffer into which kernels write fp32
//   gradients that are then cast into the unit's. It holds both embedding tables, or the largest linear:
//                                                                  max((V + P)·w, 4w·w)
//
// Calls of one micro-batch, in order. A gemm is m x n x k; one marked * reads weights, of the recipe's type.
//   embeddings forward   embedding (R, w)
//   block forward        layer norm (R, w); gemm* R x 3w x w; add bias (R, 3w); attention (B, T, w, h);
//                        gemm* R x w x w; add bias (R, w); add R·w;
//                        layer norm (R, w); gemm* R x 4w x w; add bias (R, 4w); gelu R·4w;
//                        gemm* R x w x 4w; add bias (R, w); add R·w
//   head forward         layer norm (R, w); gemm* R x V x w; cross entropy (R, V)
//   head backward        cross entropy backward (R, V); gemm V x w x R; gemm* R x w x V;
//                        layer norm backward (R, w)
//   block backward       bias backward (R, w); gemm w x 4w x R; gemm* R x 4w x w; gelu backward R·4w;
//                        bias backward (R, 4w); gemm 4w x w x R; gemm* R x w x 4w;
//                        layer norm backward (R, w);
//                        bias backward (R, w); gemm w x w x R; gemm* R x w x w;
//                        attention backward (B, T, w, h);
//                        bias backward (R, 3w); gemm 3w x w x R; gemm* R x w x 3w;
//                        layer norm backward (R, w)
//   embeddings backward  embedding backward (R, w)
// Where gradients are not fp32, each backward also makes one cast per tensor of the unit, of the tensor's
// elements (embeddings 2, block 12, head 3): P_u elements a unit.
//
// Tied, head and embeddings write one gradient V·w: the head stores its product there, and embedding backward
// adds to it (where gradients are not fp32, cast into the workspace first: one cast more, of V·w).
// Of a frozen unit, backward makes no gradient of parameters: no gemm of weights, no bias backward, no cast.
#include "harness/model/gpt.hpp"

#include <algorithm>
#include <string>

namespace zp::gpt {

using kernels::Transpose;
using kernels::Write;

namespace {

std::vector<Range> tensor_ranges(const UnitSpec& unit) {
  std::vector<Range> ranges;
  Elements at;
  for (const TensorSpec& tensor : unit.tensors) {
    const Elements end = at + element_count(tensor);
    ranges.push_back({at, end});
    at = end;
  }
  return ranges;
}

}  // namespace

Gpt::Gpt(const ModelParts& parts)
    : config_(parts.config),
      shape_(parts.shape),
      recipe_(parts.recipe),
      kernels_(parts.kernels),
      rows_(shape_.rows()),
      width_(config_.width),
      qkv_{.weight = kQkv, .bias = kQkvBias, .in = width_, .out = 3 * width_},
      out_{.weight = kOut, .bias = kOutBias, .in = width_, .out = width_},
      up_{.weight = kUp, .bias = kUpBias, .in = width_, .out = 4 * width_},
      down_{.weight = kDown, .bias = kDownBias, .in = 4 * width_, .out = width_} {
  for (const UnitSpec& unit : gpt_units(config_)) ranges_.push_back(tensor_ranges(unit));
  acquire(parts.device);
}

void Gpt::acquire(Device& device) {
  const auto activation = [&](int64_t elements) {
    return device.acquire(Category::activations, Type::f32, {elements});
  };
  const auto norm = [&] {
    return NormBuffers{.y = activation(rows_ * width_), .mean = activation(rows_), .rstd = activation(rows_)};
  };
  inputs_ = device.acquire(Category::data, Type::i32, {rows_});
  targets_ = device.acquire(Category::data, Type::i32, {rows_});

  for (int64_t i = 0; i <= config_.layers; ++i) x_.push_back(activation(rows_ * width_));
  for (int64_t i = 0; i < config_.layers; ++i) {
    blocks_.push_back({.norm1 = norm(),
                       .norm2 = norm(),
                       .qkv = activation(rows_ * 3 * width_),
                       .row_max = activation(rows_ * config_.heads),
                       .row_sum = activation(rows_ * config_.heads),
                       .attention = activation(rows_ * width_),
                       .mid = activation(rows_ * width_),
                       .up = activation(rows_ * 4 * width_),
                       .gelu = activation(rows_ * 4 * width_)});
  }
  head_ = {.norm = norm(),
           .logits = activation(rows_ * config_.vocabulary),
           .row_max = activation(rows_),
           .row_sum = activation(rows_),
           .row_loss = activation(rows_),
           .loss = activation(1)};
  d_stream_ = activation(rows_ * width_);
  d_narrow_ = activation(rows_ * width_);
  d_wide_ = activation(rows_ * 4 * width_);

  if (recipe_.grads != Type::f32) {
    const int64_t tables = (config_.vocabulary + config_.positions) * width_;
    image_ = device.acquire(Category::workspace, Type::f32, {std::max(tables, 4 * width_ * width_)});
  }
}

Tensors Gpt::tensors(int unit, View view, Type type) const {
  require(unit >= 0 && unit < static_cast<int>(ranges_.size()), "a unit belongs to the model");
  const std::vector<Range>& ranges = ranges_[static_cast<size_t>(unit)];
  if (view.empty()) return {view, ranges};
  require(view.type() == type, "a unit's view has the recipe's type");
  require(view.length() >= ranges.back().end, "a unit's view holds all of its tensors");
  return {view, ranges};
}

void Gpt::begin(int, int, const MicroBatch& tokens) {
  const auto rows = static_cast<size_t>(rows_);
  require(tokens.inputs.size() == rows && tokens.targets.size() == rows,
          "a micro-batch has the model's shape");
  const auto known = [this](int32_t token) { return token >= 0 && token < config_.vocabulary; };
  if (!std::all_of(tokens.inputs.begin(), tokens.inputs.end(), known) ||
      !std::all_of(tokens.targets.begin(), tokens.targets.end(), known)) {
    fail(Exit::usage, "data: a token is outside the model's vocabulary of " +
                          std::to_string(config_.vocabulary) + "; use a model with a larger one");
  }
  write_from_host<int32_t>(inputs_.all(), tokens.inputs);
  write_from_host<int32_t>(targets_.all(), tokens.targets);
}

View Gpt::head_weight(const UnitViews& views, Type type) const {
  if (config_.tied) return tensors(0, views.borrowed, type)[kToken];
  return tensors(static_cast<int>(ranges_.size()) - 1, views.own, type)[kHead];
}

void Gpt::forward(int unit, const UnitViews& weights) {
  const Tensors w = tensors(unit, weights.own, recipe_.params);
  if (unit == 0) return embed(w);
  if (is_head(unit)) return head_forward(w, head_weight(weights, recipe_.params));
  for (int64_t block = first_block(unit); block < end_block(unit); ++block) {
    block_forward(static_cast<size_t>(block), w.of_block(block - first_block(unit)));
  }
}

void Gpt::backward(int unit, const UnitViews& weights, const UnitViews& grads) {
  const Tensors w = tensors(unit, weights.own, recipe_.params);
  const Tensors g = tensors(unit, grads.own, recipe_.grads);
  if (unit == 0) return embed_backward(g);
  if (is_head(unit)) {
    return head_backward(w, head_weight(weights, recipe_.params), g, head_weight(grads, recipe_.grads));
  }
  for (int64_t block = end_block(unit); block-- > first_block(unit);) {
    const int64_t within = block - first_block(unit);
    block_backward(static_cast<size_t>(block), w.of_block(within), g.of_block(within));
  }
}

void Gpt::embed(const Tensors& weights) {
  kernels_.run(kernels::EmbeddingForward{.tokens = inputs_.all(),
                                         .token = weights[kToken],
                                         .position = weights[kPosition],
                                         .x = x_.front().all(),
                                         .rows = rows_,
                                         .sequence = shape_.sequence,
                                         .width = width_});
}

void Gpt::embed_backward(const Tensors& grads) {
  const View token = image_of(grads[kToken]);
  const View position = image_of(grads[kPosition], token.length());
  // A tied table holds the head's part already, as it was stored.
  if (config_.tied && recipe_.grads != Type::f32) {
    kernels_.run(kernels::Cast{.from = grads[kToken], .to = token});
  }
  kernels_.run(
      kernels::EmbeddingBackward{.tokens = inputs_.all(),
                                 .dx = d_stream_.all(),
                                 .dtoken = token,
                                 .dposition = position,
                                 .rows = rows_,
                                 .sequence = shape_.sequence,
                                 .width = width_,
                                 .write_tokens = config_.tied ? Write::accumulate : Write::overwrite});
  store(token, grads[kToken]);
  store(position, grads[kPosition]);
}

void Gpt::block_forward(size_t block, const Tensors& weights) {
  const BlockBuffers& b = blocks_[block];
  const View x = x_[block].all(), mid = b.mid.all(), y = x_[block + 1].all();

  norm_forward(weights, kNorm1, x, b.norm1);
  linear_forward(weights, qkv_, b.norm1.y.all(), b.qkv.all());
  kernels_.run(kernels::AttentionForward{.qkv = b.qkv.all(),
                                         .out = b.attention.all(),
                                         .row_max = b.row_max.all(),
                                         .row_sum = b.row_sum.all(),
                                         .batch = shape_.batch,
                                         .sequence = shape_.sequence,
                                         .width = width_,
                                         .heads = config_.heads});
  linear_forward(weights, out_, b.attention.all(), mid);
  kernels_.run(kernels::Add{.a = mid, .b = x, .y = mid});

  norm_forward(weights, kNorm2, mid, b.norm2);
  linear_forward(weights, up_, b.norm2.y.all(), b.up.all());
  kernels_.run(kernels::GeluForward{.x = b.up.all(), .y = b.gelu.all()});
  linear_forward(weights, down_, b.gelu.all(), y);
  kernels_.run(kernels::Add{.a = y, .b = mid, .y = y});
}

// d_stream holds the gradient of the block's output at the start, of `mid` half way, of the block's input at
// the end.
void Gpt::block_backward(size_t block, const Tensors& weights, const Tensors& grads) {
  const BlockBuffers& b = blocks_[block];
  const View d_stream = d_stream_.all(), d_narrow = d_narrow_.all();
  const View d_wide = d_wide_.all(), d_qkv = d_wide_.part({{0}, {rows_ * qkv_.out}});

  linear_backward(weights, grads, down_, b.gelu.all(), d_stream, d_wide);
  kernels_.run(kernels::GeluBackward{.x = b.up.all(), .dy = d_wide, .dx = d_wide});
  linear_backward(weights, grads, up_, b.norm2.y.all(), d_wide, d_narrow);
  norm_backward(weights, grads, kNorm2, b.mid.all(), b.norm2, Write::accumulate);

  linear_backward(weights, grads, out_, b.attention.all(), d_stream, d_narrow);
  kernels_.run(kernels::AttentionBackward{.qkv = b.qkv.all(),
                                          .row_max = b.row_max.all(),
                                          .row_sum = b.row_sum.all(),
                                          .dout = d_narrow,
                                          .dqkv = d_qkv,
                                          .batch = shape_.batch,
                                          .sequence = shape_.sequence,
                                          .width = width_,
                                          .heads = config_.heads});
  linear_backward(weights, grads, qkv_, b.norm1.y.all(), d_qkv, d_narrow);
  norm_backward(weights, grads, kNorm1, x_[block].all(), b.norm1, Write::accumulate);
}

void Gpt::head_forward(const Tensors& weights, View weight) {
  norm_forward(weights, kHeadNorm, x_.back().all(), head_.norm);
  product(weight, head_.norm.y.all(), head_.logits.all(), width_, config_.vocabulary);
  kernels_.run(kernels::CrossEntropyForward{.logits = head_.logits.all(),
                                            .targets = targets_.all(),
                                            .row_max = head_.row_max.all(),
                                            .row_sum = head_.row_sum.all(),
                                            .row_loss = head_.row_loss.all(),
                                            .loss = head_.loss.all(),
                                            .rows = rows_,
                                            .vocabulary = config_.vocabulary});
}

void Gpt::head_backward(const Tensors& weights, View weight, const Tensors& grads, View dweight) {
  kernels_.run(kernels::CrossEntropyBackward{.logits = head_.logits.all(),
                                             .targets = targets_.all(),
                                             .row_max = head_.row_max.all(),
                                             .row_sum = head_.row_sum.all(),
                                             .rows = rows_,
                                             .vocabulary = config_.vocabulary});
  product_backward(weight, dweight, head_.norm.y.all(), head_.logits.all(), d_narrow_.all(), width_,
                   config_.vocabulary);
  norm_backward(weights, grads, kHeadNorm, x_.back().all(), head_.norm, Write::overwrite);
}

void Gpt::norm_forward(const Tensors& weights, int gain, View x, const NormBuffers& to) {
  kernels_.run(kernels::LayerNormForward{.x = x,
                                         .gain = weights[gain],
                                         .bias = weights[gain + 1],
                                         .y = to.y.all(),
                                         .mean = to.mean.all(),
                                         .rstd = to.rstd.all(),
                                         .rows = rows_,
                                         .width = width_});
}

// From d_narrow, the gradient of the norm's output, to d_stream, that of its input.
void Gpt::norm_backward(const Tensors& weights, const Tensors& grads, int gain, View x,
                        const NormBuffers& kept, Write write) {
  const View dgain = image_of(grads[gain]);
  const View dbias = image_of(grads[gain + 1], dgain.length());
  kernels_.run(kernels::LayerNormBackward{.x = x,
                                          .gain = weights[gain],
                                          .mean = kept.mean.all(),
                                          .rstd = kept.rstd.all(),
                                          .dy = d_narrow_.all(),
                                          .dx = d_stream_.all(),
                                          .dgain = dgain,
                                          .dbias = dbias,
                                          .rows = rows_,
                                          .width = width_,
                                          .write = write});
  if (grads.empty()) return;
  store(dgain, grads[gain]);
  store(dbias, grads[gain + 1]);
}

// y = x·weightᵀ + bias
void Gpt::linear_forward(const Tensors& weights, const Linear& linear, View x, View y) {
  product(weights[linear.weight], x, y, linear.in, linear.out);
  kernels_.run(
      kernels::AddBias{.x = y, .bias = weights[linear.bias], .y = y, .rows = rows_, .columns = linear.out});
}

// dbias = column sums of dy, where the unit is trained; the rest as product_backward
void Gpt::linear_backward(const Tensors& weights, const Tensors& grads, const Linear& linear, View x, View dy,
                          View dx) {
  if (!grads.empty()) {
    const View dbias = image_of(grads[linear.bias]);
    kernels_.run(kernels::BiasBackward{.dy = dy, .dbias = dbias, .rows = rows_, .columns = linear.out});
    store(dbias, grads[linear.bias]);
  }
  product_backward(weights[linear.weight], grads[linear.weight], x, dy, dx, linear.in, linear.out);
}

void Gpt::product(View weight, View x, View y, int64_t in, int64_t out) {
  kernels_.run(
      kernels::Gemm{.a = x, .b = weight, .c = y, .b_stored = Transpose::yes, .m = rows_, .n = out, .k = in});
}

void Gpt::product_backward(View weight, View dweight, View x, View dy, View dx, int64_t in, int64_t out) {
  if (!dweight.empty()) {
    const View image = image_of(dweight);
    kernels_.run(kernels::Gemm{
        .a = dy, .b = x, .c = image, .a_stored = Transpose::yes, .m = out, .n = in, .k = rows_});
    store(image, dweight);
  }
  kernels_.run(kernels::Gemm{.a = dy, .b = weight, .c = dx, .m = rows_, .n = in, .k = out});
}

View Gpt::image_of(View grad, Elements before) const {
  if (recipe_.grads == Type::f32) return grad;
  return image_.part({before, before + grad.length()});
}

void Gpt::store(View image, View grad) {
  if (recipe_.grads != Type::f32) kernels_.run(kernels::Cast{.from = image, .to = grad});
}

}  // namespace zp::gpt

namespace zp {

std::unique_ptr<Model> make_gpt(const ModelParts& parts) { return std::make_unique<gpt::Gpt>(parts); }

}  // namespace zp
