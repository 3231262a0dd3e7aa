// Token and position tables to rows, and rows of gradients back into the tables, tokens in order.
#include "kernels/cuda/elements.cuh"

namespace zp::kernels::cuda {
namespace {

struct TokenBody {
  const int32_t* tokens;
  int64_t vocabulary;
  unsigned long long* outside;

  __device__ void run(int64_t i) const {
    if (tokens[i] < 0 || tokens[i] >= vocabulary) atomicAdd(outside, 1ULL);
  }
};

template <class T>
struct EmbeddingBody {
  const int32_t* tokens;
  const T *token, *position;
  float* x;
  int64_t sequence, columns, vocabulary;

  template <int width>
  __device__ void run(int64_t row, int64_t column) const {
    const int32_t word = tokens[row];
    if (word < 0 || word >= vocabulary) return;
    auto sum = read<width>(token + word * columns + column);
    const auto place = read<width>(position + row % sequence * columns + column);
    for (int j = 0; j < width; ++j) sum.of[j] = sum.of[j] + place.of[j];
    write(x + row * columns + column, sum);
  }
};

// +0 into every row of a table.
struct ClearBody {
  float* table;

  template <int width>
  __device__ void run(int64_t i) const {
    write(table + i, Vector<float, width>{});
  }
};

// A position's row: the sum of its rows of dx, in order, from +0.
struct PositionBody {
  const float* dx;
  float* dposition;
  int64_t rows, sequence, columns;

  template <int width>
  __device__ void run(int64_t place, int64_t column) const {
    Vector<float, width> sum{};
    for (int64_t row = place; place < sequence && row < rows; row += sequence) {
      const auto d = read<width>(dx + row * columns + column);
      for (int j = 0; j < width; ++j) sum.of[j] = sum.of[j] + d.of[j];
    }
    write(dposition + place * columns + column, sum);
  }
};

constexpr int kStripes = kThreads / kWarp;  // of a block, a warp each
constexpr int kColumns = 4;                 // of a lane; a stripe is 32 times as wide
constexpr int kTokensAtOnce = 4;            // tokens that a lane looks at before any is compared

// A warp has one row and one stripe of columns. It looks for its row's token, 32 rows after another: where an
// earlier row has it, that row's warp adds for both; else this warp adds all rows of the token, in order, to
// what the table holds, and nobody else reads or writes that.
__global__ void __launch_bounds__(kThreads)
    add_token_rows(const int32_t* tokens, const float* dx, float* dtoken, int64_t rows, int64_t width,
                   int64_t vocabulary) {
  const int64_t row = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t stripe = int64_t{blockIdx.y} * kStripes + threadIdx.x / kWarp;
  const int64_t column = stripe * kColumns * kWarp + lane;
  if (stripe * kColumns * kWarp >= width) return;
  const int32_t token = tokens[row];
  if (token < 0 || token >= vocabulary) return;
  float* to = dtoken + token * width;
  float sum[kColumns] = {};
  for (int64_t begin = 0; begin < rows; begin += kTokensAtOnce * kWarp) {
    int32_t here[kTokensAtOnce];
#pragma unroll
    for (int k = 0; k < kTokensAtOnce; ++k) {
      const int64_t at = begin + k * kWarp + lane;
      here[k] = at < rows ? tokens[at] : -1;
    }
#pragma unroll
    for (int k = 0; k < kTokensAtOnce; ++k) {
      for (unsigned found = __ballot_sync(kWholeWarp, here[k] == token); found != 0; found &= found - 1) {
        const int64_t next = begin + k * kWarp + __ffs(static_cast<int>(found)) - 1;
        if (next < row) return;  // all lanes alike
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          if (column + j * kWarp >= width) continue;
          const float before = next == row ? to[column + j * kWarp] : sum[j];
          sum[j] = before + dx[next * width + column + j * kWarp];
        }
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    if (column + j * kWarp < width) to[column + j * kWarp] = sum[j];
  }
}

}  // namespace

void look_at_tokens(const Context& context, const View& tokens, int64_t vocabulary) {
  const TokenBody body{input<int32_t>(tokens), vocabulary, &context.handed->outside};
  launch_over_each(context, tokens.length().n, body);
}

void run(const Context& context, const EmbeddingForward& call) {
  const int64_t vocabulary = call.token.length().n / call.width;
  look_at_tokens(context, call.tokens, vocabulary);
  with_type(call.token.type(), [&]<class T>(T) {
    const EmbeddingBody<T> body{.tokens = input<int32_t>(call.tokens),
                                .token = input<T>(call.token),
                                .position = input<T>(call.position),
                                .x = output<float>(call.x),
                                .sequence = call.sequence,
                                .columns = call.width,
                                .vocabulary = vocabulary};
    launch_over_rows(context, call.rows, call.width,
                     is_aligned(body.token) && is_aligned(body.position) && is_aligned(body.x), body);
  });
}

void run(const Context& context, const EmbeddingBackward& call) {
  const int64_t vocabulary = call.dtoken.length().n / call.width;
  look_at_tokens(context, call.tokens, vocabulary);
  const float* dx = input<float>(call.dx);
  float* dtoken = output<float>(call.dtoken);
  if (call.write_tokens == Write::overwrite) {
    launch_over_elements(context, call.dtoken.length().n, is_aligned(dtoken), ClearBody{dtoken});
  }
  const int64_t stripes = blocks_for(call.width, int64_t{kColumns} * kWarp);
  launch(context, {.x = call.rows, .y = blocks_for(stripes, kStripes)}, add_token_rows,
         input<int32_t>(call.tokens), dx, dtoken, call.rows, call.width, vocabulary);
  const PositionBody body{dx, output<float>(call.dposition), call.rows, call.sequence, call.width};
  launch_over_rows(context, call.dposition.length().n / call.width, call.width,
                   is_aligned(dx) && is_aligned(body.dposition), body);
}

}  // namespace zp::kernels::cuda
