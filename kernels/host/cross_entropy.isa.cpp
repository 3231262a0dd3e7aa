// Softmax cross entropy: the loss of every row, and its gradient in place of the logits.
#include "kernels/arguments.hpp"
#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

const int32_t* checked_targets(const View& view, int64_t rows, int64_t vocabulary) {
  const int32_t* targets = view.read<int32_t>();
  bool all_hold = true;
  for (int64_t r = 0; r < rows; ++r) all_hold = all_hold && targets[r] >= 0 && targets[r] < vocabulary;
  require_tokens(all_hold);
  return targets;
}

}  // namespace

void run(HostContext& context, const CrossEntropyForward& call) {
  const int64_t rows = call.rows, vocabulary = call.vocabulary;
  const int32_t* targets = checked_targets(call.targets, rows, vocabulary);
  const float* logits = call.logits.read<float>();
  float* row_maxima = call.row_max.write<float>();
  float* row_sums = call.row_sum.write<float>();
  float* row_loss = call.row_loss.write<float>();
  over_rows(context.pool, rows, vocabulary, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = logits + row * vocabulary;
      const float max = row_max(x, vocabulary, 1.0F);
      const Floats max8 = splat(max);
      const float sum = row_lanes(vocabulary, [=](auto lanes, int64_t i, auto sums) {
        return sums + exp(read(lanes, x + i) - max8);
      });
      row_maxima[row] = max;
      row_sums[row] = sum;
      row_loss[row] = (log(sum) + max) - x[targets[row]];
    }
  });
  *call.loss.write<float>() = row_sum(row_loss, rows) / static_cast<float>(rows);
}

void run(HostContext& context, const CrossEntropyBackward& call) {
  const int64_t rows = call.rows, vocabulary = call.vocabulary;
  const int32_t* targets = checked_targets(call.targets, rows, vocabulary);
  float* logits = call.logits.write<float>();
  const float* row_maxima = call.row_max.read<float>();
  const float* row_sums = call.row_sum.read<float>();
  const float share = 1.0F / static_cast<float>(rows);
  over_rows(context.pool, rows, vocabulary, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* x = logits + row * vocabulary;
      float& target = x[targets[row]];
      const float inverse = 1.0F / row_sums[row];
      const float at_target = (exp(target - row_maxima[row]) * inverse - 1.0F) * share;
      const Floats max8 = splat(row_maxima[row]), inverse8 = splat(inverse), share8 = splat(share);
      over_pairs(0, vocabulary, [=](auto lanes, int64_t i) {
        write(lanes, x + i, (exp(read(lanes, x + i) - max8) * inverse8) * share8);
      });
      target = at_target;
    }
  });
}

}  // namespace zp::kernels::ZP_ISA
