// The rows of the table of kernels.
#include "kernels/cases.hpp"

namespace zp::kernels {

namespace {

Gemm gemm(CaseMemory& memory, int64_t m, int64_t n, int64_t k, Type b_type) {
  Gemm call;
  call.a = memory.numbers(Type::f32, m * k);
  call.b = memory.numbers(b_type, k * n);
  call.m = m;
  call.n = n;
  call.k = k;
  return call;
}

// Rows times a weight that is stored output by input.
template <Type weights>
Call gemm_forward(CaseMemory& memory, const CaseSizes& s) {
  Gemm call = gemm(memory, s.rows(), 4 * s.width, s.width, weights);
  call.b_stored = Transpose::yes;
  call.c = memory.space(Type::f32, s.rows() * 4 * s.width);
  return call;
}

template <Type weights>
Call gemm_input_gradient(CaseMemory& memory, const CaseSizes& s) {
  Gemm call = gemm(memory, s.rows(), s.width, 4 * s.width, weights);
  call.c = memory.space(Type::f32, s.rows() * s.width);
  return call;
}

Call gemm_weight_gradient(CaseMemory& memory, const CaseSizes& s) {
  Gemm call = gemm(memory, 4 * s.width, s.width, s.rows(), Type::f32);
  call.a_stored = Transpose::yes;
  call.c = memory.numbers(Type::f32, 4 * s.width * s.width);
  call.write = Write::accumulate;
  return call;
}

Call add_bias(CaseMemory& memory, const CaseSizes& s) {
  AddBias call;
  call.x = memory.numbers(Type::f32, s.rows() * s.width);
  call.bias = memory.numbers(Type::bf16, s.width);
  call.y = memory.space(Type::f32, s.rows() * s.width);
  call.rows = s.rows();
  call.columns = s.width;
  return call;
}

Call bias_backward(CaseMemory& memory, const CaseSizes& s) {
  BiasBackward call;
  call.dy = memory.numbers(Type::f32, s.rows() * s.width);
  call.dbias = memory.space(Type::f32, s.width);
  call.rows = s.rows();
  call.columns = s.width;
  return call;
}

Call layer_norm(CaseMemory& memory, const CaseSizes& s) {
  LayerNormForward call;
  call.x = memory.numbers(Type::f32, s.rows() * s.width);
  call.gain = memory.numbers(Type::bf16, s.width, 0.1F, 1.0F);
  call.bias = memory.numbers(Type::bf16, s.width);
  call.y = memory.space(Type::f32, s.rows() * s.width);
  call.mean = memory.space(Type::f32, s.rows());
  call.rstd = memory.space(Type::f32, s.rows());
  call.rows = s.rows();
  call.width = s.width;
  return call;
}

Call layer_norm_backward(CaseMemory& memory, const CaseSizes& s) {
  LayerNormBackward call;
  call.x = memory.numbers(Type::f32, s.rows() * s.width);
  call.gain = memory.numbers(Type::bf16, s.width, 0.1F, 1.0F);
  call.mean = memory.numbers(Type::f32, s.rows(), 0.01F);
  call.rstd = memory.numbers(Type::f32, s.rows(), 0.01F, 1.0F);
  call.dy = memory.numbers(Type::f32, s.rows() * s.width);
  call.dx = memory.numbers(Type::f32, s.rows() * s.width);
  call.dgain = memory.space(Type::f32, s.width);
  call.dbias = memory.space(Type::f32, s.width);
  call.rows = s.rows();
  call.width = s.width;
  return call;
}

Call attention(CaseMemory& memory, const CaseSizes& s) {
  AttentionForward call;
  call.qkv = memory.numbers(Type::f32, s.rows() * 3 * s.width);
  call.out = memory.space(Type::f32, s.rows() * s.width);
  call.row_max = memory.space(Type::f32, s.rows() * s.heads);
  call.row_sum = memory.space(Type::f32, s.rows() * s.heads);
  call.batch = s.batch;
  call.sequence = s.sequence;
  call.width = s.width;
  call.heads = s.heads;
  return call;
}

Call attention_backward(CaseMemory& memory, const CaseSizes& s) {
  AttentionBackward call;
  call.qkv = memory.numbers(Type::f32, s.rows() * 3 * s.width);
  call.row_max = memory.numbers(Type::f32, s.rows() * s.heads, 0.1F, 3.0F);
  call.row_sum = memory.numbers(Type::f32, s.rows() * s.heads, 1.0F, 20.0F);
  call.dout = memory.numbers(Type::f32, s.rows() * s.width);
  call.dqkv = memory.space(Type::f32, s.rows() * 3 * s.width);
  call.batch = s.batch;
  call.sequence = s.sequence;
  call.width = s.width;
  call.heads = s.heads;
  return call;
}

Call gelu(CaseMemory& memory, const CaseSizes& s) {
  GeluForward call;
  call.x = memory.numbers(Type::f32, s.rows() * 4 * s.width);
  call.y = memory.space(Type::f32, s.rows() * 4 * s.width);
  return call;
}

Call gelu_backward(CaseMemory& memory, const CaseSizes& s) {
  GeluBackward call;
  call.x = memory.numbers(Type::f32, s.rows() * 4 * s.width);
  call.dy = memory.numbers(Type::f32, s.rows() * 4 * s.width);
  call.dx = memory.space(Type::f32, s.rows() * 4 * s.width);
  return call;
}

Call add(CaseMemory& memory, const CaseSizes& s) {
  Add call;
  call.a = memory.numbers(Type::f32, s.rows() * s.width);
  call.b = memory.numbers(Type::f32, s.rows() * s.width);
  call.y = memory.space(Type::f32, s.rows() * s.width);
  return call;
}

Call embedding(CaseMemory& memory, const CaseSizes& s) {
  EmbeddingForward call;
  call.tokens = memory.tokens(s.rows(), s.vocabulary);
  call.token = memory.numbers(Type::bf16, s.vocabulary * s.width);
  call.position = memory.numbers(Type::bf16, s.sequence * s.width);
  call.x = memory.space(Type::f32, s.rows() * s.width);
  call.rows = s.rows();
  call.sequence = s.sequence;
  call.width = s.width;
  return call;
}

Call embedding_backward(CaseMemory& memory, const CaseSizes& s) {
  EmbeddingBackward call;
  call.tokens = memory.tokens(s.rows(), s.vocabulary);
  call.dx = memory.numbers(Type::f32, s.rows() * s.width);
  call.dtoken = memory.space(Type::f32, s.vocabulary * s.width);
  call.dposition = memory.space(Type::f32, s.sequence * s.width);
  call.rows = s.rows();
  call.sequence = s.sequence;
  call.width = s.width;
  return call;
}

Call cross_entropy(CaseMemory& memory, const CaseSizes& s) {
  CrossEntropyForward call;
  call.logits = memory.numbers(Type::f32, s.rows() * s.vocabulary);
  call.targets = memory.tokens(s.rows(), s.vocabulary);
  call.row_max = memory.space(Type::f32, s.rows());
  call.row_sum = memory.space(Type::f32, s.rows());
  call.row_loss = memory.space(Type::f32, s.rows());
  call.loss = memory.space(Type::f32, 1);
  call.rows = s.rows();
  call.vocabulary = s.vocabulary;
  return call;
}

Call cross_entropy_backward(CaseMemory& memory, const CaseSizes& s) {
  CrossEntropyBackward call;
  call.logits = memory.numbers(Type::f32, s.rows() * s.vocabulary);
  call.targets = memory.tokens(s.rows(), s.vocabulary);
  call.row_max = memory.numbers(Type::f32, s.rows(), 0.1F, 3.0F);
  call.row_sum = memory.numbers(Type::f32, s.rows(), 1.0F, 20.0F);
  call.rows = s.rows();
  call.vocabulary = s.vocabulary;
  return call;
}

template <Type from, Type to>
Call cast(CaseMemory& memory, const CaseSizes& s) {
  Cast call;
  call.from = memory.numbers(from, s.parameters);
  call.to = memory.space(to, s.parameters);
  return call;
}

template <int inputs, Type type, int divisor = 3>
Call fold(CaseMemory& memory, const CaseSizes& s) {
  Fold call;
  for (int i = 0; i < inputs; ++i) call.inputs.push_back(memory.numbers(type, s.parameters));
  call.out = memory.space(type, s.parameters);
  call.divisor = divisor;
  return call;
}

template <int inputs, Type out>
Call integer_fold(CaseMemory& memory, const CaseSizes& s) {
  Fold call;
  for (int i = 0; i < inputs; ++i) call.inputs.push_back(memory.fixed(s.parameters));
  call.out = memory.space(out, s.parameters);
  if (out == Type::f32) call.divisor = 3.0F;
  return call;
}

template <Write write>
Call to_fixed(CaseMemory& memory, const CaseSizes& s) {
  ToFixed call;
  call.from = memory.numbers(Type::f32, s.parameters);
  call.to = write == Write::accumulate ? memory.fixed(s.parameters) : memory.space(Type::i64, s.parameters);
  call.terms = 8;
  call.write = write;
  return call;
}

template <Type grads>
Call adamw(CaseMemory& memory, const CaseSizes& s) {
  AdamW call;
  call.grads = memory.numbers(grads, s.parameters);
  call.master = memory.numbers(Type::f32, s.parameters);
  call.m = memory.numbers(Type::f32, s.parameters, 0.1F);
  call.v = memory.numbers(Type::f32, s.parameters, 0.1F, 1.0F);
  call.clip = 0.75F;
  call.lr = 3e-4F;
  call.beta1 = 0.9F;
  call.beta2 = 0.95F;
  call.epsilon = 1e-8F;
  call.decay = 0.1F;
  call.correction1 = 0.19F;
  call.correction2 = 0.0975F;
  return call;
}

template <Type grads>
Call sgd(CaseMemory& memory, const CaseSizes& s) {
  Sgd call;
  call.grads = memory.numbers(grads, s.parameters);
  call.master = memory.numbers(Type::f32, s.parameters);
  call.m = memory.numbers(Type::f32, s.parameters, 0.1F);
  call.clip = 0.75F;
  call.lr = 0.1F;
  call.momentum = 0.9F;
  call.decay = 0.1F;
  return call;
}

template <Type grads>
Call square_sum(CaseMemory& memory, const CaseSizes& s) {
  SquareSum call;
  call.grads = memory.numbers(grads, s.parameters);
  call.sum = memory.exact_sum();
  return call;
}

template <Type type, HashFunction function>
Call hash(CaseMemory& memory, const CaseSizes& s) {
  HashRun call;
  call.function = function;
  call.x = memory.numbers(type, s.parameters);
  call.kind = HashKind::master;
  call.logical = 12345;
  call.sum = memory.hash_sum();
  return call;
}

Call initialize(CaseMemory& memory, const CaseSizes& s) {
  Initialize call;
  call.x = memory.space(Type::f32, s.parameters);
  call.init = Init::normal;
  call.scale = 0.02F;
  call.key = 7;
  call.first = 1001;
  return call;
}

template <Type grads>
Call synthetic_gradient(CaseMemory& memory, const CaseSizes& s) {
  SyntheticGradient call;
  call.grads = memory.space(grads, s.parameters);
  call.key = 9;
  call.first = 1001;
  return call;
}

constexpr KernelCase kCases[] = {
    {.name = "gemm forward", .make = gemm_forward<Type::f32>},
    {.name = "gemm forward bf16", .make = gemm_forward<Type::bf16>},
    {.name = "gemm input gradient", .make = gemm_input_gradient<Type::f32>},
    {.name = "gemm input gradient bf16", .make = gemm_input_gradient<Type::bf16>},
    {.name = "gemm weight gradient", .make = gemm_weight_gradient},
    {.name = "add bias", .make = add_bias},
    {.name = "bias backward", .make = bias_backward},
    {.name = "layer norm", .make = layer_norm},
    {.name = "layer norm backward", .make = layer_norm_backward},
    {.name = "attention", .make = attention},
    {.name = "attention backward", .make = attention_backward},
    {.name = "gelu", .make = gelu},
    {.name = "gelu backward", .make = gelu_backward},
    {.name = "add", .make = add},
    {.name = "embedding", .make = embedding},
    {.name = "embedding backward", .make = embedding_backward},
    {.name = "cross entropy", .make = cross_entropy},
    {.name = "cross entropy backward", .make = cross_entropy_backward},
    {.name = "cast to bf16", .make = cast<Type::f32, Type::bf16>},
    {.name = "cast to fp32", .make = cast<Type::bf16, Type::f32>},
    {.name = "fold of 2", .make = fold<2, Type::f32>},
    {.name = "fold of 2 bf16", .make = fold<2, Type::bf16, 1>},
    {.name = "fold of 8 bf16", .make = fold<8, Type::bf16>},
    {.name = "divide", .make = fold<1, Type::f32>},
    {.name = "integer fold of 2", .make = integer_fold<2, Type::i64>},
    {.name = "integer fold of 8 to fp32", .make = integer_fold<8, Type::f32>},
    {.name = "from fixed", .make = integer_fold<1, Type::f32>},
    {.name = "to fixed", .make = to_fixed<Write::overwrite>},
    {.name = "to fixed accumulating", .make = to_fixed<Write::accumulate>},
    {.name = "adamw", .make = adamw<Type::f32>},
    {.name = "adamw bf16", .make = adamw<Type::bf16>},
    {.name = "sgd", .make = sgd<Type::f32>},
    {.name = "sgd bf16", .make = sgd<Type::bf16>},
    {.name = "square sum", .make = square_sum<Type::f32>},
    {.name = "square sum bf16", .make = square_sum<Type::bf16>},
    {.name = "hash", .make = hash<Type::f32, HashFunction::state>},
    {.name = "hash bf16", .make = hash<Type::bf16, HashFunction::state>},
    {.name = "replica hash", .make = hash<Type::f32, HashFunction::replica>},
    {.name = "replica hash bf16", .make = hash<Type::bf16, HashFunction::replica>},
    {.name = "initialize", .make = initialize},
    {.name = "synthetic gradient", .make = synthetic_gradient<Type::f32>},
    {.name = "synthetic gradient bf16", .make = synthetic_gradient<Type::bf16>},
};

}  // namespace

std::span<const KernelCase> kernel_cases() { return kCases; }

}  // namespace zp::kernels
