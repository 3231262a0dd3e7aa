// Token and position tables to rows, and rows of gradients back into the tables, tokens in order.
#include "kernels/arguments.hpp"
#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

const int32_t* checked_tokens(const View& view, int64_t rows, int64_t vocabulary) {
  const int32_t* tokens = view.read<int32_t>();
  bool all_hold = true;
  for (int64_t r = 0; r < rows; ++r) all_hold = all_hold && tokens[r] >= 0 && tokens[r] < vocabulary;
  require_tokens(all_hold);
  return tokens;
}

}  // namespace

void run(HostContext& context, const EmbeddingForward& call) {
  const int64_t rows = call.rows, width = call.width, sequence = call.sequence;
  const int32_t* tokens = checked_tokens(call.tokens, rows, call.token.length().n / width);
  with_type(call.token.type(), [&](auto zero) {
    using T = decltype(zero);
    const T* token = call.token.read<T>();
    const T* position = call.position.read<T>();
    float* x = call.x.write<float>();
    over_rows(context.pool, rows, width, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* word = token + tokens[row] * width;
        const T* place = position + row % sequence * width;
        float* out = x + row * width;
        over_lanes(0, width, [=](auto lanes, int64_t c) {
          write(lanes, out + c, read(lanes, word + c) + read(lanes, place + c));
        });
      }
    });
  });
}

void run(HostContext& context, const EmbeddingBackward& call) {
  const int64_t rows = call.rows, width = call.width, sequence = call.sequence;
  const int64_t vocabulary = call.dtoken.length().n / width, positions = call.dposition.length().n / width;
  const int32_t* tokens = checked_tokens(call.tokens, rows, vocabulary);
  const float* dx = call.dx.read<float>();
  float* dtoken = call.dtoken.write<float>();
  float* dposition = call.dposition.write<float>();
  const bool clear_tokens = call.write_tokens == Write::overwrite;
  over_columns(context.pool, width, [=](int64_t begin, int64_t end) {
    const auto clear = [=](float* table, int64_t table_rows) {
      for (int64_t r = 0; r < table_rows; ++r) {
        for (int64_t c = begin; c < end; ++c) table[r * width + c] = 0.0F;
      }
    };
    if (clear_tokens) clear(dtoken, vocabulary);
    clear(dposition, positions);
    for (int64_t row = 0; row < rows; ++row) {
      float* word = dtoken + tokens[row] * width;
      float* place = dposition + row % sequence * width;
      over_lanes(begin, end, [=](auto lanes, int64_t c) {
        const Floats d = read(lanes, dx + row * width + c);
        write(lanes, word + c, read(lanes, word + c) + d);
        write(lanes, place + c, read(lanes, place + c) + d);
      });
    }
  });
}

}  // namespace zp::kernels::ZP_ISA
