// Name and elements of every call, as the contracts in kernels.hpp state them.
#include "kernels/kernels.hpp"

namespace zp::kernels {
namespace {

struct Name {
  std::string_view operator()(const Gemm&) const { return "gemm"; }
  std::string_view operator()(const AddBias&) const { return "add bias"; }
  std::string_view operator()(const BiasBackward&) const { return "bias backward"; }
  std::string_view operator()(const LayerNormForward&) const { return "layer norm"; }
  std::string_view operator()(const LayerNormBackward&) const { return "layer norm backward"; }
  std::string_view operator()(const AttentionForward&) const { return "attention"; }
  std::string_view operator()(const AttentionBackward&) const { return "attention backward"; }
  std::string_view operator()(const GeluForward&) const { return "gelu"; }
  std::string_view operator()(const GeluBackward&) const { return "gelu backward"; }
  std::string_view operator()(const Add&) const { return "add"; }
  std::string_view operator()(const EmbeddingForward&) const { return "embedding"; }
  std::string_view operator()(const EmbeddingBackward&) const { return "embedding backward"; }
  std::string_view operator()(const CrossEntropyForward&) const { return "cross entropy"; }
  std::string_view operator()(const CrossEntropyBackward&) const { return "cross entropy backward"; }
  std::string_view operator()(const Cast&) const { return "cast"; }
  std::string_view operator()(const Fold& call) const {
    const bool alone = call.inputs.size() == 1;
    if (!call.inputs.empty() && call.inputs.front().type() == Type::i64)
      return alone ? "from fixed" : "integer fold";
    return alone ? "divide" : "fold";
  }
  std::string_view operator()(const ToFixed&) const { return "to fixed"; }
  std::string_view operator()(const AdamW&) const { return "adamw"; }
  std::string_view operator()(const Sgd&) const { return "sgd"; }
  std::string_view operator()(const SquareSum&) const { return "square sum"; }
  std::string_view operator()(const HashRun& call) const {
    return call.function == HashFunction::replica ? "replica hash" : "hash";
  }
  std::string_view operator()(const Initialize&) const { return "initialize"; }
  std::string_view operator()(const SyntheticGradient&) const { return "synthetic gradient"; }
};

// Terms on and below the diagonal, over all heads: batch·heads·T·(T+1)/2·d, and heads·d is the width.
template <class Attention>
Elements causal(const Attention& call) {
  return {call.batch * (call.sequence * (call.sequence + 1) / 2) * call.width};
}

struct Count {
  Elements operator()(const Gemm& call) const { return {call.m * call.n * call.k}; }
  Elements operator()(const AddBias& call) const { return {call.rows * call.columns}; }
  Elements operator()(const BiasBackward& call) const { return {call.rows * call.columns}; }
  Elements operator()(const LayerNormForward& call) const { return {call.rows * call.width}; }
  Elements operator()(const LayerNormBackward& call) const { return {call.rows * call.width}; }
  Elements operator()(const AttentionForward& call) const { return causal(call); }
  Elements operator()(const AttentionBackward& call) const { return causal(call); }
  Elements operator()(const GeluForward& call) const { return call.x.length(); }
  Elements operator()(const GeluBackward& call) const { return call.x.length(); }
  Elements operator()(const Add& call) const { return call.a.length(); }
  Elements operator()(const EmbeddingForward& call) const { return {call.rows * call.width}; }
  Elements operator()(const EmbeddingBackward& call) const { return {call.rows * call.width}; }
  Elements operator()(const CrossEntropyForward& call) const { return {call.rows * call.vocabulary}; }
  Elements operator()(const CrossEntropyBackward& call) const { return {call.rows * call.vocabulary}; }
  Elements operator()(const Cast& call) const { return call.from.length(); }
  Elements operator()(const Fold& call) const {
    const auto inputs = static_cast<int64_t>(call.inputs.size());
    return call.out.length() * (inputs == 1 ? 1 : inputs - 1);
  }
  Elements operator()(const ToFixed& call) const { return call.from.length(); }
  Elements operator()(const AdamW& call) const { return call.grads.length(); }
  Elements operator()(const Sgd& call) const { return call.grads.length(); }
  Elements operator()(const SquareSum& call) const { return call.grads.length(); }
  Elements operator()(const HashRun& call) const { return call.x.length(); }
  Elements operator()(const Initialize& call) const { return call.x.length(); }
  Elements operator()(const SyntheticGradient& call) const { return call.grads.length(); }
};

}  // namespace

std::string_view name_of(const Call& call) { return std::visit(Name{}, call); }
Elements elements_of(const Call& call) { return std::visit(Count{}, call); }

}  // namespace zp::kernels
