// Softmax cross entropy: the bits of plain loops, and the fp64 definition and its slope within bounds that
// follow from the order of operations.
#include "correctness/kernels/either_type.hpp"
#include "correctness/kernels/naive.hpp"
#include "correctness/kernels/slopes.hpp"

namespace zp::kernels {
namespace {

struct LogitsShape {
  int64_t rows, vocabulary;
};
const std::vector<LogitsShape> kLogitsShapes{{1, 1},   {3, 2},  {2, 31},  {5, 32},
                                             {33, 33}, {4, 65}, {7, 256}, {100, 257}};

struct LogitsAndTargets {
  explicit LogitsAndTargets(const LogitsShape& s)
      : logits(data(s.rows * s.vocabulary, 1)), targets(tokens_below(s.vocabulary, s.rows, 3)) {
    for (size_t i = 0; i < logits.size(); ++i) logits[i] *= i % 5 == 0 ? 30.0F : 3.0F;
    for (int64_t c = 0; c < s.vocabulary; ++c)
      logits[static_cast<size_t>(c)] = -0.0F;  // a maximum that is zero
  }
  Floats logits;
  Tokens targets;
};

double exact_loss(const std::vector<double>& logits, const Tokens& targets) {
  const size_t vocabulary = logits.size() / targets.size();
  double loss = 0.0;
  for (size_t r = 0; r < targets.size(); ++r) {
    double sum = 0.0;
    for (size_t c = 0; c < vocabulary; ++c) sum += std::exp(logits[r * vocabulary + c]);
    loss += std::log(sum) - logits[r * vocabulary + static_cast<size_t>(targets[r])];
  }
  return loss / static_cast<double>(targets.size());
}

CrossEntropyForward forward_call(const LogitsAndTargets& in, const LogitsShape& s, Bench& bench) {
  CrossEntropyForward call;
  call.logits = bench.put(in.logits);
  call.targets = bench.put(in.targets);
  call.row_max = bench.space(Type::f32, s.rows);
  call.row_sum = bench.space(Type::f32, s.rows);
  call.row_loss = bench.space(Type::f32, s.rows);
  call.loss = bench.space(Type::f32, 1);
  call.rows = s.rows;
  call.vocabulary = s.vocabulary;
  return call;
}

TEST(CrossEntropy, HasTheBitsOfPlainLoopsForEveryHost) {
  for (const LogitsShape& s : kLogitsShapes) {
    const LogitsAndTargets in(s);
    const auto want = naive::cross_entropy(in.logits, in.targets);
    const auto want_gradient = naive::cross_entropy_backward(in.logits, in.targets, want);
    for (const Host& host : hosts()) {
      Bench bench(host);
      const CrossEntropyForward call = forward_call(in, s, bench);
      bench.run(call);
      EXPECT_TRUE(same_bits(values_of<float>(call.row_max), want.row_max)) << text_of(host);
      EXPECT_TRUE(same_bits(values_of<float>(call.row_sum), want.row_sum)) << text_of(host);
      EXPECT_TRUE(same_bits(values_of<float>(call.row_loss), want.row_loss)) << text_of(host);
      EXPECT_TRUE(same_bits(values_of<float>(call.loss), {want.loss})) << text_of(host);
      CrossEntropyBackward backward;
      backward.logits = call.logits;
      backward.targets = call.targets;
      backward.row_max = call.row_max;
      backward.row_sum = call.row_sum;
      backward.rows = s.rows;
      backward.vocabulary = s.vocabulary;
      bench.run(backward);
      EXPECT_TRUE(same_bits(values_of<float>(backward.logits), want_gradient)) << text_of(host);
    }
  }
}

TEST(CrossEntropy, IsAsNearToTheDefinitionAsItsOrderAllows) {
  for (const LogitsShape& s : kLogitsShapes) {
    const LogitsAndTargets in(s);
    const auto exact = widened_to_fp64(in.logits);
    const auto got = naive::cross_entropy(in.logits, in.targets);
    const auto bound = naive::cross_entropy(bounded_list(in.logits), in.targets);
    EXPECT_TRUE(within_bounds({got.loss}, {exact_loss(exact, in.targets)}, {bound.loss}));
  }
}

TEST(CrossEntropyBackward, IsTheSlopeOfTheDefinition) {
  for (const LogitsShape& s : {LogitsShape{3, 2}, LogitsShape{2, 31}, LogitsShape{4, 65}}) {
    const LogitsAndTargets in(s);
    const auto got =
        naive::cross_entropy_backward(in.logits, in.targets, naive::cross_entropy(in.logits, in.targets));
    const auto logits = bounded_list(in.logits);
    const auto bound =
        naive::cross_entropy_backward(logits, in.targets, naive::cross_entropy(logits, in.targets));
    const Slopes exact =
        slopes(widened_to_fp64(in.logits), [&](const auto& moved) { return exact_loss(moved, in.targets); });
    EXPECT_TRUE(within_bounds(got, exact.value, bound, exact.error));
  }
}

TEST(CrossEntropy, RefusesTargetsOutsideTheVocabulary) {
  for (const int32_t bad : {-1, 31}) {
    const LogitsShape s{2, 31};
    LogitsAndTargets in(s);
    in.targets[1] = bad;
    for (const Host& host : hosts()) {
      Bench bench(host);
      EXPECT_THROW(bench.run(forward_call(in, s, bench)), Error);
    }
  }
}

}  // namespace
}  // namespace zp::kernels
