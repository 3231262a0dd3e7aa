// Token and position tables to rows, and rows of gradients back into the tables, tokens in order.
#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

struct Tables {
  int64_t vocabulary = 0, positions = 0;
};

// Lengths of token and position tables say how many rows they have. Every token must name one.
Tables checked_tables(const View& token, const View& position, int64_t width, int64_t sequence) {
  require(width > 0 && sequence > 0, "embedding: a row has elements and a sequence tokens");
  const Tables tables{token.length().n / width, position.length().n / width};
  require_length(token, tables.vocabulary * width, "embedding: the token table has whole rows");
  require_length(position, tables.positions * width, "embedding: the position table has whole rows");
  require(sequence <= tables.positions, "embedding: every position of a sequence has a row");
  return tables;
}

const int32_t* checked_tokens(const View& view, int64_t rows, int64_t vocabulary) {
  require_length(view, rows, "embedding: a token for each row");
  const int32_t* tokens = view.read<int32_t>();
  for (int64_t r = 0; r < rows; ++r) {
    require(tokens[r] >= 0 && tokens[r] < vocabulary, "embedding: a token lies in the vocabulary");
  }
  return tokens;
}

}  // namespace

void run(HostContext& context, const EmbeddingForward& call) {
  const int64_t rows = call.rows, width = call.width, sequence = call.sequence;
  const Tables tables = checked_tables(call.token, call.position, width, sequence);
  const int32_t* tokens = checked_tokens(call.tokens, rows, tables.vocabulary);
  require_length(call.x, rows * width, "embedding: x is rows x width");
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
  const Tables tables = checked_tables(call.dtoken, call.dposition, width, sequence);
  const int32_t* tokens = checked_tokens(call.tokens, rows, tables.vocabulary);
  require_length(call.dx, rows * width, "embedding backward: dx is rows x width");
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
    if (clear_tokens) clear(dtoken, tables.vocabulary);
    clear(dposition, tables.positions);
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
