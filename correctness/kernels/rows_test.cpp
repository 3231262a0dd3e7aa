// Kernels over rows and columns: bias, embedding. Bits of plain loops for every host; sums within the bounds
// of their order; what lies outside a table is refused.
#include "correctness/kernels/either_type.hpp"
#include "correctness/kernels/naive.hpp"

namespace zp::kernels {
namespace {

struct RowsShape {
  int64_t rows, columns;
};
const std::vector<RowsShape> kRowsShapes{{1, 1},  {3, 7},   {5, 8},   {4, 31},   {7, 32},
                                         {2, 33}, {61, 65}, {3, 257}, {130, 384}};
constexpr Type kTypes[] = {Type::f32, Type::bf16};

template <class T>
std::vector<T> column_sums(const std::vector<T>& dy, size_t columns) {
  std::vector<T> sums(columns, T(0.0F));
  for (size_t i = 0; i < dy.size(); ++i) sums[i % columns] = sums[i % columns] + dy[i];
  return sums;
}

TEST(AddBias, HasTheBitsOfAPlainLoopForEveryHostAlsoInPlace) {
  for (const auto& [rows, columns] : kRowsShapes) {
    for (const Type type : kTypes) {
      const Floats x = data(rows * columns, 1), bias = kept_as(type, data(columns, 3));
      Floats want = x;
      for (size_t i = 0; i < want.size(); ++i) want[i] += bias[i % bias.size()];
      for (const Host& host : hosts()) {
        for (const bool in_place : {false, true}) {
          Bench bench(host);
          AddBias call;
          call.x = bench.put(x);
          call.bias = put_as(type, bias, bench);
          call.y = in_place ? call.x : bench.space(Type::f32, rows * columns);
          call.rows = rows;
          call.columns = columns;
          bench.run(call);
          EXPECT_TRUE(same_bits(values_of<float>(call.y), want)) << text_of(host) << " columns " << columns;
        }
      }
    }
  }
}

TEST(BiasBackward, AddsRowsInOrderForEveryHost) {
  for (const auto& [rows, columns] : kRowsShapes) {
    const Floats dy = data(rows * columns, 11);
    const Floats want = column_sums(dy, static_cast<size_t>(columns));
    for (const Host& host : hosts()) {
      Bench bench(host);
      BiasBackward call;
      call.dy = bench.put(dy);
      call.dbias = bench.space(Type::f32, columns);
      call.rows = rows;
      call.columns = columns;
      bench.run(call);
      EXPECT_TRUE(same_bits(values_of<float>(call.dbias), want)) << text_of(host) << " columns " << columns;
    }
    const auto exact = column_sums(std::vector<double>(dy.begin(), dy.end()), static_cast<size_t>(columns));
    EXPECT_TRUE(within_bounds(want, exact, column_sums(bounded_list(dy), static_cast<size_t>(columns))));
  }
}

struct Text {
  int64_t batch, sequence, width, vocabulary, positions;
  int64_t rows() const { return batch * sequence; }
};
const std::vector<Text> kTexts{
    {1, 1, 1, 1, 1}, {2, 3, 31, 5, 3}, {3, 17, 33, 7, 19}, {2, 64, 65, 11, 64}, {1, 5, 384, 256, 9}};

TEST(Embedding, AddsTokenAndPositionForEveryHost) {
  for (const Text& t : kTexts) {
    for (const Type type : kTypes) {
      const Tokens tokens = tokens_below(t.vocabulary, t.rows(), 21);
      const Floats token = kept_as(type, data(t.vocabulary * t.width, 23));
      const Floats position = kept_as(type, data(t.positions * t.width, 25));
      Floats want;
      for (int64_t r = 0; r < t.rows(); ++r) {
        for (int64_t c = 0; c < t.width; ++c) {
          want.push_back(token[static_cast<size_t>(tokens[static_cast<size_t>(r)] * t.width + c)] +
                         position[static_cast<size_t>(r % t.sequence * t.width + c)]);
        }
      }
      for (const Host& host : hosts()) {
        Bench bench(host);
        EmbeddingForward call;
        call.tokens = bench.put(tokens);
        call.token = put_as(type, token, bench);
        call.position = put_as(type, position, bench);
        call.x = bench.space(Type::f32, t.rows() * t.width);
        call.rows = t.rows();
        call.sequence = t.sequence;
        call.width = t.width;
        bench.run(call);
        EXPECT_TRUE(same_bits(values_of<float>(call.x), want)) << text_of(host) << " width " << t.width;
      }
    }
  }
}

template <class T>
struct TableGradients {
  std::vector<T> token, position;
};

// `before`: what the token table's gradient holds already; empty: nothing.
template <class T>
TableGradients<T> embedding_backward(const Text& t, const Tokens& tokens, const std::vector<T>& dx,
                                     const std::vector<T>& before = {}) {
  TableGradients<T> out{
      before.empty() ? std::vector<T>(static_cast<size_t>(t.vocabulary * t.width), T(0.0F)) : before,
      std::vector<T>(static_cast<size_t>(t.positions * t.width), T(0.0F))};
  for (size_t i = 0; i < dx.size(); ++i) {
    const auto width = static_cast<size_t>(t.width);
    const size_t row = i / width, column = i % width;
    T& word = out.token[static_cast<size_t>(tokens[row]) * width + column];
    T& place = out.position[row % static_cast<size_t>(t.sequence) * width + column];
    word = word + dx[i];
    place = place + dx[i];
  }
  return out;
}

TEST(EmbeddingBackward, AddsRowsInTheOrderOfTokensForEveryHost) {
  for (const Text& t : kTexts) {
    const Tokens tokens = tokens_below(t.vocabulary, t.rows(), 31);
    const Floats dx = data(t.rows() * t.width, 33);
    const auto want = embedding_backward(t, tokens, dx);
    for (const Host& host : hosts()) {
      Bench bench(host);
      EmbeddingBackward call;
      call.tokens = bench.put(tokens);
      call.dx = bench.put(dx);
      call.dtoken = bench.space(Type::f32, t.vocabulary * t.width);
      call.dposition = bench.space(Type::f32, t.positions * t.width);
      call.rows = t.rows();
      call.sequence = t.sequence;
      call.width = t.width;
      bench.run(call);
      EXPECT_TRUE(same_bits(values_of<float>(call.dtoken), want.token))
          << text_of(host) << " width " << t.width;
      EXPECT_TRUE(same_bits(values_of<float>(call.dposition), want.position))
          << text_of(host) << " width " << t.width;
    }
    const auto exact = embedding_backward(t, tokens, std::vector<double>(dx.begin(), dx.end()));
    const auto bound = embedding_backward(t, tokens, bounded_list(dx));
    EXPECT_TRUE(within_bounds(want.token, exact.token, bound.token));
    EXPECT_TRUE(within_bounds(want.position, exact.position, bound.position));
  }
}

TEST(EmbeddingBackward, AddsRowsToWhatTheTokenTableHoldsWhereItAccumulates) {
  for (const Text& t : kTexts) {
    const Tokens tokens = tokens_below(t.vocabulary, t.rows(), 31);
    const Floats dx = data(t.rows() * t.width, 33), before = data(t.vocabulary * t.width, 35);
    const auto want = embedding_backward(t, tokens, dx, before);
    for (const Host& host : hosts()) {
      Bench bench(host);
      EmbeddingBackward call;
      call.tokens = bench.put(tokens);
      call.dx = bench.put(dx);
      call.dtoken = bench.put(before);
      call.dposition = bench.put(data(t.positions * t.width, 37));
      call.rows = t.rows();
      call.sequence = t.sequence;
      call.width = t.width;
      call.write_tokens = Write::accumulate;
      bench.run(call);
      EXPECT_TRUE(same_bits(values_of<float>(call.dtoken), want.token))
          << text_of(host) << " width " << t.width;
      EXPECT_TRUE(same_bits(values_of<float>(call.dposition), want.position))
          << text_of(host) << " width " << t.width;
    }
  }
}

TEST(Embedding, RefusesTokensOutsideTheVocabularyAndPositionsWithoutARow) {
  const auto refused = [](const Host& host, const Tokens& tokens, int64_t sequence) {
    Bench bench(host);
    EmbeddingForward forward;
    forward.tokens = bench.put(tokens);
    forward.token = bench.put(data(5 * 3, 1));
    forward.position = bench.put(data(2 * 3, 1));
    forward.x = bench.space(Type::f32, 2 * 3);
    forward.rows = 2;
    forward.sequence = sequence;
    forward.width = 3;
    EmbeddingBackward backward;
    backward.tokens = forward.tokens;
    backward.dx = forward.x;
    backward.dtoken = forward.token;
    backward.dposition = forward.position;
    backward.rows = 2;
    backward.sequence = sequence;
    backward.width = 3;
    int thrown = 0;
    for (const Call& call : {Call(forward), Call(backward)}) {
      try {
        bench.run(call);
      } catch (const Error&) {
        ++thrown;
      }
    }
    return thrown;
  };
  for (const Host& host : hosts()) {
    EXPECT_EQ(refused(host, {0, 4}, 2), 0);
    EXPECT_EQ(refused(host, {0, 5}, 2), 2);
    EXPECT_EQ(refused(host, {-1, 4}, 2), 2);
    EXPECT_EQ(refused(host, {0, 4}, 3), 2);
  }
}

TEST(Bias, RefusesViewsOfAnotherLength) {
  for (const Host& host : hosts()) {
    Bench bench(host);
    AddBias call;
    call.x = bench.put(data(6, 1));
    call.bias = bench.put(data(2, 1));
    call.y = bench.space(Type::f32, 6);
    call.rows = 2;
    call.columns = 3;
    EXPECT_THROW(bench.run(call), Error);
  }
}

}  // namespace
}  // namespace zp::kernels
