// The rules of every call, as its contract states them.
#include "kernels/arguments.hpp"

#include <array>
#include <cstdio>

#include "harness/base/check.hpp"

namespace zp::kernels {
namespace {

void require_length(const View& view, int64_t length, std::string_view rule, Where where = {}) {
  require(view.length().n == length, rule, where);
}

// Of a view that is as long as another.
void require_as(const View& view, const View& other, std::string_view rule, Where where = {}) {
  require(view.length() == other.length(), rule, where);
}

template <class Attention>
void require_attention(const Attention& call) {
  require(call.batch >= 0 && call.sequence >= 0 && call.heads >= 1 && call.width >= call.heads,
          "attention has heads of at least one element");
  require(call.width % call.heads == 0, "the heads of attention divide its width");
  require(call.width / call.heads <= kPanelDepth, "a head of attention is at most 512 wide");
  require_length(call.qkv, call.batch * call.sequence * 3 * call.width, "qkv holds R x 3·width");
  require_length(call.row_max, call.batch * call.heads * call.sequence,
                 "row_max holds batch x heads x sequence");
  require_as(call.row_sum, call.row_max, "row_sum is as long as row_max");
}

// Lengths of token and position tables say how many rows they have.
void require_tables(const View& tokens, const View& token, const View& position, int64_t rows, int64_t width,
                    int64_t sequence) {
  require(rows >= 0 && width > 0 && sequence > 0, "embedding: a row has elements and a sequence tokens");
  require(token.length().n % width == 0, "embedding: the token table has whole rows");
  require(position.length().n % width == 0, "embedding: the position table has whole rows");
  require(sequence <= position.length().n / width, "embedding: every position of a sequence has a row");
  require_length(tokens, rows, "embedding: a token for each row");
}

struct Rules {
  void operator()(const Gemm& call) const {
    require(call.m >= 0 && call.n >= 0 && call.k >= 0, "a matrix has no negative size");
    require(call.a.length().n == call.m * call.k && call.b.length().n == call.k * call.n &&
                call.c.length().n == call.m * call.n,
            "the views of a gemm hold m·k, k·n and m·n elements");
  }

  void operator()(const AddBias& call) const {
    require_length(call.x, call.rows * call.columns, "add bias: x is rows x columns");
    require_as(call.y, call.x, "add bias: y is rows x columns");
    require_length(call.bias, call.columns, "add bias: a bias for each column");
  }

  void operator()(const BiasBackward& call) const {
    require_length(call.dy, call.rows * call.columns, "bias backward: dy is rows x columns");
    require_length(call.dbias, call.columns, "bias backward: a dbias for each column");
  }

  void operator()(const LayerNormForward& call) const {
    require_length(call.x, call.rows * call.width, "layer norm: x is rows x width");
    require_as(call.y, call.x, "layer norm: y is rows x width");
    require_length(call.gain, call.width, "layer norm: a gain for each column");
    require_length(call.bias, call.width, "layer norm: a bias for each column");
    require_length(call.mean, call.rows, "layer norm: a mean for each row");
    require_length(call.rstd, call.rows, "layer norm: an rstd for each row");
  }

  void operator()(const LayerNormBackward& call) const {
    require_length(call.x, call.rows * call.width, "layer norm backward: x is rows x width");
    require_as(call.dy, call.x, "layer norm backward: dy is rows x width");
    require_as(call.dx, call.x, "layer norm backward: dx is rows x width");
    require_length(call.gain, call.width, "layer norm backward: a gain for each column");
    require_length(call.mean, call.rows, "layer norm backward: a mean for each row");
    require_length(call.rstd, call.rows, "layer norm backward: an rstd for each row");
    if (call.dgain.empty() && call.dbias.empty()) return;  // dx alone
    require_length(call.dgain, call.width, "layer norm backward: a dgain for each column");
    require_length(call.dbias, call.width, "layer norm backward: a dbias for each column");
  }

  void operator()(const AttentionForward& call) const {
    require_attention(call);
    require_length(call.out, call.batch * call.sequence * call.width, "out holds R x width");
  }

  void operator()(const AttentionBackward& call) const {
    require_attention(call);
    require_length(call.dout, call.batch * call.sequence * call.width, "dout holds R x width");
    require_as(call.dqkv, call.qkv, "dqkv holds R x 3·width");
  }

  void operator()(const GeluForward& call) const { require_as(call.y, call.x, "gelu: y is as long as x"); }

  void operator()(const GeluBackward& call) const {
    require_as(call.dy, call.x, "gelu backward: dy is as long as x");
    require_as(call.dx, call.x, "gelu backward: dx is as long as x");
  }

  void operator()(const Add& call) const {
    require_as(call.b, call.a, "add: b is as long as a");
    require_as(call.y, call.a, "add: y is as long as a");
  }

  void operator()(const EmbeddingForward& call) const {
    require_tables(call.tokens, call.token, call.position, call.rows, call.width, call.sequence);
    require_length(call.x, call.rows * call.width, "embedding: x is rows x width");
  }

  void operator()(const EmbeddingBackward& call) const {
    require_tables(call.tokens, call.dtoken, call.dposition, call.rows, call.width, call.sequence);
    require_length(call.dx, call.rows * call.width, "embedding backward: dx is rows x width");
  }

  void operator()(const CrossEntropyForward& call) const {
    require(call.rows > 0 && call.vocabulary > 0, "cross entropy: there are rows and a vocabulary");
    require_length(call.targets, call.rows, "cross entropy: a target for each row");
    require_length(call.logits, call.rows * call.vocabulary, "cross entropy: logits are rows x vocabulary");
    require_length(call.row_max, call.rows, "cross entropy: a maximum for each row");
    require_length(call.row_sum, call.rows, "cross entropy: a sum for each row");
    require_length(call.row_loss, call.rows, "cross entropy: a loss for each row");
    require_length(call.loss, 1, "cross entropy: one loss");
  }

  void operator()(const CrossEntropyBackward& call) const {
    require(call.rows > 0 && call.vocabulary > 0, "cross entropy: there are rows and a vocabulary");
    require_length(call.targets, call.rows, "cross entropy: a target for each row");
    require_length(call.logits, call.rows * call.vocabulary, "cross entropy: logits are rows x vocabulary");
    require_length(call.row_max, call.rows, "cross entropy backward: a maximum for each row");
    require_length(call.row_sum, call.rows, "cross entropy backward: a sum for each row");
  }

  void operator()(const Cast& call) const { require_as(call.to, call.from, "cast: to is as long as from"); }

  void operator()(const Fold& call) const {
    require(!call.inputs.empty(), "fold: there is an input");
    const bool whole = call.inputs.front().type() == Type::i64;
    for (const View& input : call.inputs) {
      require_as(input, call.out, "fold: every input is as long as out");
      require(input.empty() || (input.type() == Type::i64) == whole,
              "fold: all inputs are in fixed point, or none");
    }
    require(call.out.type() != Type::i64 || (whole && call.divisor == 1.0F),
            "fold: integers come of integers, and are not divided");
  }

  void operator()(const ToFixed& call) const {
    require_as(call.to, call.from, "to fixed: to is as long as from");
    require(call.terms > 0, "to fixed: a sum has terms");
  }

  void operator()(const AdamW& call) const {
    require_as(call.master, call.grads, "adamw: master is as long as grads");
    require_as(call.m, call.grads, "adamw: m is as long as grads");
    require_as(call.v, call.grads, "adamw: v is as long as grads");
  }

  void operator()(const Sgd& call) const {
    require_as(call.master, call.grads, "sgd: master is as long as grads");
    require_as(call.m, call.grads, "sgd: m is as long as grads");
  }

  void operator()(const SquareSum& call) const {
    require(call.sum != nullptr, "square sum: there is a sum to add to");
  }

  void operator()(const HashRun& call) const {
    require(call.sum != nullptr, "hash: there is a sum to add to");
    require(call.logical >= 0 && (call.logical + call.x.length().n) >> 48 == 0,
            "hash: an element's number fits 48 bits");
  }

  void operator()(const Initialize&) const {}
  void operator()(const SyntheticGradient&) const {}
};

}  // namespace

void require_arguments(const Call& call) { std::visit(Rules{}, call); }

void require_tokens(bool all_lie_in_the_vocabulary) {
  require(all_lie_in_the_vocabulary, "a token or target lies in its vocabulary");
}

void fail_to_fixed(int64_t at, float value, int64_t terms) {
  std::array<char, 160> text{};
  std::snprintf(
      text.data(), text.size(),
      "to fixed: element %lld is %.9g; fixed point holds less than 2^19/%lld of a sum of %lld terms",
      static_cast<long long>(at), static_cast<double>(value), static_cast<long long>(terms),
      static_cast<long long>(terms));
  fail(Exit::bits, text.data());
}

}  // namespace zp::kernels
