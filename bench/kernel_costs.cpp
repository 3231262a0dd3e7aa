// What calls cost at least.
#include "bench/kernel_costs.hpp"

#include <initializer_list>

namespace zp::bench {
namespace {

using namespace kernels;

double sum(std::initializer_list<View> views) {
  int64_t bytes = 0;
  for (const View& view : views) bytes += view.bytes().n;
  return static_cast<double>(bytes);
}

// What is written where it stood counts in both directions.
double moved(const Gemm& c) { return sum({c.a, c.b, c.c}) + (c.write == Write::accumulate ? sum({c.c}) : 0); }
double moved(const AddBias& c) { return sum({c.x, c.bias, c.y}); }
double moved(const BiasBackward& c) { return sum({c.dy, c.dbias}); }
double moved(const LayerNormForward& c) { return sum({c.x, c.gain, c.bias, c.y, c.mean, c.rstd}); }
double moved(const LayerNormBackward& c) {
  return sum({c.x, c.gain, c.mean, c.rstd, c.dy, c.dx, c.dgain, c.dbias}) +
         (c.write == Write::accumulate ? sum({c.dx}) : 0);
}
double moved(const AttentionForward& c) { return sum({c.qkv, c.out, c.row_max, c.row_sum}); }
double moved(const AttentionBackward& c) { return sum({c.qkv, c.row_max, c.row_sum, c.dout, c.dqkv}); }
double moved(const GeluForward& c) { return sum({c.x, c.y}); }
double moved(const GeluBackward& c) { return sum({c.x, c.dy, c.dx}); }
double moved(const Add& c) { return sum({c.a, c.b, c.y}); }
double moved(const EmbeddingForward& c) { return sum({c.tokens, c.x, c.x}); }
double moved(const EmbeddingBackward& c) { return sum({c.tokens, c.dx, c.dx, c.dx, c.dtoken, c.dposition}); }
double moved(const CrossEntropyForward& c) {
  return sum({c.logits, c.targets, c.row_max, c.row_sum, c.row_loss});
}
double moved(const CrossEntropyBackward& c) {
  return sum({c.logits, c.logits, c.targets, c.row_max, c.row_sum});
}
double moved(const Cast& c) { return sum({c.from, c.to}); }
double moved(const Fold& c) {
  double bytes = sum({c.out});
  for (const View& input : c.inputs) bytes += sum({input});
  return bytes;
}
double moved(const ToFixed& c) {
  return sum({c.from, c.to}) + (c.write == Write::accumulate ? sum({c.to}) : 0);
}
double moved(const AdamW& c) { return sum({c.grads, c.master, c.master, c.m, c.m, c.v, c.v}); }
double moved(const Sgd& c) { return sum({c.grads, c.master, c.master, c.m, c.m}); }
double moved(const SquareSum& c) { return sum({c.grads}); }
double moved(const HashRun& c) { return sum({c.x}); }
double moved(const Initialize& c) { return sum({c.x}); }
double moved(const SyntheticGradient& c) { return sum({c.grads}); }

}  // namespace

double bytes_moved(const Call& call) {
  return std::visit([](const auto& one) { return moved(one); }, call);
}

// One product an element of a gemm, two in attention, five in its backward.
double operations_of(const Call& call) {
  const auto elements = static_cast<double>(elements_of(call).n);
  if (std::holds_alternative<Gemm>(call)) return 2.0 * elements;
  if (std::holds_alternative<AttentionForward>(call)) return 4.0 * elements;
  if (std::holds_alternative<AttentionBackward>(call)) return 10.0 * elements;
  return 0.0;
}

}  // namespace zp::bench
