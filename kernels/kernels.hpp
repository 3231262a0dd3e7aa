// Every kernel's contract, and the one way to call it. A call is plain data: views, shapes and numbers. A
// table of kernels runs calls on one device; decorators (the ledger's meter, mutants) wrap a table and see
// every call. All arithmetic follows repro-1 (README): IEEE-754 operations in a documented order that depends
// on the logical shape only, never on threads, blocking, vector width or device. `fma` is fused only where it
// is written.
//
// Activations and their gradients are fp32, row-major. "weights" are views of the recipe's parameter type
// (fp32 or bf16); bf16 is widened exactly. Rows R = batch·sequence. Outputs are overwritten unless said
// otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/base/quantities.hpp"
#include "harness/device/device.hpp"
#include "harness/layout/layout.hpp"
#include "kernels/hash.hpp"
#include "kernels/norm.hpp"

namespace zp::kernels {

enum class Transpose { no, yes };
enum class Write { overwrite, accumulate };

// C (m x n) = op(A) (m x k) · op(B) (k x n), C fp32, A fp32, B fp32 or bf16; the matrices are dense (no
// gaps). With Transpose::yes A is stored k x m, B n x k. Per element: chains of fma over k ascending, each
// from +0, cut at k ≡ 0 mod 512; C is the first chain (accumulate: C + it), each further chain is added to C
// in turn. k = 0 gives +0. Source of the order: design 3.2.   Elements: m·n·k.
struct Gemm {
  View a, b, c;
  Transpose a_stored = Transpose::no, b_stored = Transpose::no;
  int64_t m = 0, n = 0, k = 0;
  Write write = Write::overwrite;
};

// y[r][c] = x[r][c] + bias[c]; y may be x.   Elements: R·columns.
struct AddBias {
  View x, bias, y;
  int64_t rows = 0, columns = 0;
};

// dbias[c] (fp32) = sum over r ascending, from +0, of dy[r][c].   Elements: R·columns.
struct BiasBackward {
  View dy, dbias;
  int64_t rows = 0, columns = 0;
};

// mean = lanes(x)/n; var = lanes_fma((x-mean)²)/n; rstd = 1/sqrt(var + 1e-5f); y = fma((x-mean)·rstd, gain,
// bias). lanes: 32 virtual lanes, each from +0, element i added to lane i mod 32 in ascending order
// (lanes_fma: lane = fma(a, a, lane)), then lanes folded (l, l+16), 8, 4, 2, 1. /n is a division by n in
// fp32.   Elements: R·width.
struct LayerNormForward {
  View x, gain, bias, y, mean, rstd;  // mean, rstd: R
  int64_t rows = 0, width = 0;
};

// With xhat = (x-mean)·rstd, h = dy·gain: dx = ((h - lanes(h)/n) - xhat·(lanes(h·xhat)/n))·rstd, every
// product rounded, or dx + that where `write` is accumulate (the residual path). dx may be dy where it is
// overwritten. dgain[c] = chain of fma(dy, xhat, ·) over rows ascending from +0; dbias[c] = sum of dy over
// rows ascending from +0. dgain and dbias may both be empty: then dx alone is made. Elements: R·width.
struct LayerNormBackward {
  View x, gain, mean, rstd, dy, dx, dgain, dbias;
  int64_t rows = 0, width = 0;
  Write write = Write::accumulate;
};

// Causal self-attention, design 3.2. qkv: R x 3·width (q, k, v side by side; head h at columns h·d … of
// each), out: R x width, row_max and row_sum: batch x heads x sequence. Score s_ij = (chain over d of q_i
// k_j)·(1/sqrt(d)), for j ≤ i. row_max = max over j ≤ i; e_ij = exp(s_ij - max); row_sum = lanes(e); p_ij =
// e_ij·(1/row_sum). (A maximum of zero is stored as +0; a head is at most 512 wide.) out_i = chain of
// p_ij·v_j over j = 0 … min(T, 64·ceil((i+1)/64))-1, masked p = +0 executed, chains cut at 512. Elements:
// batch·heads·T·(T+1)/2·d.
struct AttentionForward {
  View qkv, out, row_max, row_sum;
  int64_t batch = 0, sequence = 0, width = 0, heads = 0;
};

// p is recomputed as in forward. dp_ij = chain over d of dout_i·v_j; w_i = lanes over j ≤ i of (dp_ij·p_ij);
// ds_ij = (p_ij·(dp_ij - w_i))·(1/sqrt(d)). dq_i = chain of ds_ij·k_j over the same j as out; dk_j = chain of
// ds_ij·q_i and dv_j = chain of p_ij·dout_i over i = 64·floor(j/64) … T-1, masked terms +0 executed, chains
// cut at absolute index ≡ 0 mod 512. dqkv as qkv.   Elements: batch·heads·T·(T+1)/2·d.
struct AttentionBackward {
  View qkv, row_max, row_sum, dout, dqkv;
  int64_t batch = 0, sequence = 0, width = 0, heads = 0;
};

// tanh form: in = fma((x·x)·x, 0.044715f, x)·0.7978846f; y = (0.5f·x)·(1 + tanh(in)); y may be x.
// Elements: length of x.
struct GeluForward {
  View x, y;
};

// dx = dy·gelu'(x), where with t = tanh(in), slope = fma(0.134145f·x, x, 1)·0.7978846f:
// gelu'(x) = fma((0.5f·x)·fma(-t, t, 1), slope, 0.5f·(1 + t)); dx may be dy.   Elements: length of x.
struct GeluBackward {
  View x, dy, dx;
};

// y = a + b, fp32; y may be a or b.   Elements: length of a.
struct Add {
  View a, b, y;
};

// x[r] = token[tokens[r]] + position[r mod sequence]. The tables' lengths give vocabulary and positions; a
// token outside the vocabulary throws, here and wherever tokens are read; a device that computes beside the
// host may say so with the next result that the host holds.   Elements: R·width.
struct EmbeddingForward {
  View tokens, token, position, x;  // tokens: i32, R
  int64_t rows = 0, sequence = 0, width = 0;
};

// dtoken (vocabulary x width) and dposition (positions x width), fp32, are set to +0, then rows are added
// ascending; where `write_tokens` is accumulate, rows are added to what dtoken holds. Elements: R·width.
struct EmbeddingBackward {
  View tokens, dx, dtoken, dposition;
  int64_t rows = 0, sequence = 0, width = 0;
  Write write_tokens = Write::overwrite;
};

// Per row: max (+0 added, so that a zero has no sign), sum = lanes(exp(logit - max)),
// loss_r = (log(sum) + max) - logit[target]; loss (1 element) = lanes(loss_r)/R. log is correctly rounded.
// Elements: R·vocabulary.
struct CrossEntropyForward {
  View logits, targets, row_max, row_sum, row_loss, loss;
  int64_t rows = 0, vocabulary = 0;
};

// In place over logits: (exp(logit - max)·(1/sum) - [column = target])·(1/R).   Elements: R·vocabulary.
struct CrossEntropyBackward {
  View logits, targets, row_max, row_sum;
  int64_t rows = 0, vocabulary = 0;
};

// to = from, rounded to nearest even where `to` is bf16.   Elements: length.
struct Cast {
  View from, to;
};

// out = (fold of the inputs)/divisor: inputs of fp32 or bf16 are widened, added in fp32 by the fold of
// design 3.4 (element i+h to element i, h the largest power of two below the count), divided in fp32 (not
// when divisor is 1) and rounded once to out's type. `out` may be one of the inputs. One input: only the
// division, named "divide". Inputs of int64 (all of them: fixed point) are added as integers; out is int64
// (divisor 1) or fp32(fp64(sum)·2⁻⁴⁴), rounded to nearest even at each of the two conversions, then divided
// in fp32: named "integer fold", and "from fixed" of one input. Elements: (inputs-1)·length; length for one
// input.
struct Fold {
  std::vector<View> inputs;
  View out;
  float divisor = 1.0F;
};

// to = z, or to + z where `write` is accumulate, with z = rint(fp64(from)·2⁴⁴), ties to even: a gradient in
// fixed point, int64. An element with |from|·terms ≥ 2¹⁹, NaN or Inf throws (bits) with its value, so that no
// sum of `terms` elements wraps.   Elements: length.
struct ToFixed {
  View from, to;      // fp32, int64
  int64_t terms = 1;  // that a sum adds up in all
  Write write = Write::overwrite;
};

// One AdamW step on a run of one tensor (kernels/adamw.hpp holds the formula).   Elements: length of grads.
struct AdamW {
  View grads, master, m, v;  // grads of the recipe's type; the rest fp32
  float clip = 1.0F;         // factor on the gradient, in fp32
  float lr = 0.0F, beta1 = 0.0F, beta2 = 0.0F, epsilon = 0.0F, decay = 0.0F;
  float correction1 = 1.0F, correction2 = 1.0F;  // 1 - beta^t, from a repeated fp64 product
};

// One step of SGD with momentum on a run of one tensor (kernels/sgd.hpp holds the formula): with
// g = fma(decay, master, clip·grad), m = fma(momentum, m, g), then master -= lr·m. m starts at +0. Elements:
// length of grads.
struct Sgd {
  View grads, master, m;  // grads of the recipe's type; the rest fp32
  float clip = 1.0F;      // factor on the gradient, in fp32
  float lr = 0.0F, momentum = 0.0F, decay = 0.0F;
};

// Adds the squares of `grads` to *sum, in blocks of 64 elements counted from the view's begin, which must be
// a multiple of 64 from its unit's first element (kernels/norm.hpp).   Elements: length.
struct SquareSum {
  View grads;
  ExactSum* sum = nullptr;
};

// *sum += mix(kind·2⁴⁸ + logical + i, bits(x[i])) for every element, by one of two functions
// (kernels/hash.hpp). Never metered. Elements: length.
struct HashRun {
  View x;
  HashFunction function = HashFunction::state;
  HashKind kind = HashKind::param;
  int64_t logical = 0;  // number of the first element over the whole model
  HashSum* sum = nullptr;
};

// x = initial values of elements first … of a tensor: random_normal(key, element, scale), ones or zeros;
// fp32, or rounded once to bf16. Elements: length.
struct Initialize {
  View x;
  Init init = Init::zeros;
  float scale = 0.0F;
  uint64_t key = 0;
  int64_t first = 0;
};

// The synthetic model's gradient of elements first … : dyadic numbers k/8, k = floor(17·u/2³²) - 8, where u
// is the upper half of random_bits(key, element) and key comes from (seed, step, micro-batch).   Elements:
// length.
struct SyntheticGradient {
  View grads;  // the recipe's gradient type (k/8 is exact in both)
  uint64_t key = 0;
  int64_t first = 0;
};

using Call = std::variant<Gemm, AddBias, BiasBackward, LayerNormForward, LayerNormBackward, AttentionForward,
                          AttentionBackward, GeluForward, GeluBackward, Add, EmbeddingForward,
                          EmbeddingBackward, CrossEntropyForward, CrossEntropyBackward, Cast, Fold, ToFixed,
                          AdamW, Sgd, SquareSum, HashRun, Initialize, SyntheticGradient>;

// Names as the ledger and theory write them: "gemm", "add bias", "bias backward", "layer norm", "layer norm
// backward", "attention", "attention backward", "gelu", "gelu backward", "add", "embedding", "embedding
// backward", "cross entropy", "cross entropy backward", "cast", "fold", "divide", "integer fold", "from
// fixed", "to fixed", "adamw", "sgd", "square sum", "hash", "replica hash", "initialize", "synthetic
// gradient".
std::string_view name_of(const Call& call);
// The elements a call handles, as its contract says.
Elements elements_of(const Call& call);

// Runs calls on one device, in order.
class Table {
 public:
  Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  virtual ~Table() = default;
  virtual void run(const Call& call) = 0;
  // `poll` is called on the caller's thread now and then while a kernel runs; it may run kernels itself. A
  // table that hands its work to a device needs none.
  virtual void set_poll(const std::function<void()>& poll) { static_cast<void>(poll); }
};

enum class Isa { best, portable, avx2, avx512 };

struct HostOptions {
  int threads = 1;
  int64_t max_sequence = 0;  // longest attention row that will be asked for; sizes the workspace
  Isa isa = Isa::best;
};

// Sizes of the host kernels' blocks, in elements. No bit depends on them, except that chains are kPanelDepth
// long.
inline constexpr int64_t kPanelDepth = 512;     // k
inline constexpr int64_t kPanelColumns = 1024;  // n, packed once for all threads
inline constexpr int64_t kPanelRows = 192;      // m, packed by each thread
inline constexpr int64_t kStripRows = 72;       // attention, each thread: a block of at most 66 rows, packed

// Bytes of Category::workspace that make_host_table acquires for these options, in one buffer:
//   4·max(kPanelDepth·(kPanelColumns + threads·kPanelRows),
//         threads·(2·min(T, kPanelDepth)·(T + 16) + (T + kStripRows)·kPanelDepth)),  T = max_sequence
//         rounded up to a multiple of 32;
// the second is absent where max_sequence is 0.
Bytes host_workspace(const HostOptions& options);

// Host kernels. The workspace is acquired from `device`, which must outlive the table. Throws (unavailable)
// for an ISA that this processor lacks.
std::unique_ptr<Table> make_host_table(Device& device, const HostOptions& options);

}  // namespace zp::kernels
