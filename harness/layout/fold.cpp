// The order in which gradients are added.
#include "harness/layout/fold.hpp"

#include <algorithm>
#include <bit>
#include <memory>

#include "harness/base/check.hpp"

namespace zp {
namespace {

struct Node {
  int element = 0;  // lowest element below this node
  int depth = 0;
  std::unique_ptr<Node> low, high;
};

std::unique_ptr<Node> fold_tree(int count) {
  std::vector<std::unique_ptr<Node>> row;
  for (int i = 0; i < count; ++i) {
    row.push_back(std::make_unique<Node>());
    row.back()->element = i;
  }
  while (row.size() > 1) {
    const size_t half = std::bit_ceil(row.size()) / 2;
    for (size_t i = 0; i + half < row.size(); ++i) {
      auto sum = std::make_unique<Node>();
      sum->element = row[i]->element;
      sum->depth = 1 + std::max(row[i]->depth, row[i + half]->depth);
      sum->low = std::move(row[i]);
      sum->high = std::move(row[i + half]);
      row[i] = std::move(sum);
    }
    row.resize(half);
  }
  return std::move(row.front());
}

// Sums the node into `target`; `fresh` says whether the target holds nothing yet. Buffers above `free` are
// unused.
void visit(const Node& node, int target, bool fresh, int free, std::vector<Visit>& out) {
  if (!node.low) {
    out.push_back({.element = node.element, .target = target, .first = fresh, .merges = {}});
    return;
  }
  require(fresh, "only a leaf is added through the scratch");
  const bool low_first = node.low->depth >= node.high->depth;
  const Node& first = low_first ? *node.low : *node.high;
  const Node& second = low_first ? *node.high : *node.low;
  visit(first, target, true, free, out);
  if (!second.low) {
    visit(second, target, false, free, out);
    return;
  }
  visit(second, free, true, free + 1, out);
  out.back().merges.push_back({.into = target, .from = free});
}

}  // namespace

int default_micro_batches(int world) { return (8 + world - 1) / world * world; }

int micro_batch_of(Reduction reduction, const Batching& batching, int place, int element) {
  require(element >= 0 && element < batching.micro_steps(), "a micro-step lies in the step");
  return reduction == Reduction::after_accumulation ? place + element * batching.world
                                                    : place * batching.micro_steps() + element;
}

std::vector<Visit> fold_visits(int count) {
  require(count > 0, "a fold has at least one element");
  std::vector<Visit> out;
  visit(*fold_tree(count), 0, true, 1, out);
  return out;
}

int extra_fold_buffers(int count) {
  return std::max(0, static_cast<int>(std::bit_width(static_cast<unsigned>(count))) - 2);
}

std::vector<Visit> visits(const Batching& batching) {
  if (batching.accumulate == Accumulate::fold) return fold_visits(batching.micro_steps());
  std::vector<Visit> out;
  for (int element = 0; element < batching.micro_steps(); ++element) {
    out.push_back({.element = element, .target = 0, .first = element == 0, .merges = {}});
  }
  return out;
}

int extra_buffers(const Batching& batching) {
  return batching.accumulate == Accumulate::fold ? extra_fold_buffers(batching.micro_steps()) : 0;
}

bool equals_global_fold(Reduction reduction, const Batching& batching) {
  const int steps = batching.micro_steps();
  if (batching.accumulate == Accumulate::sequential && steps > 2) return false;
  if (steps == 1 || batching.world == 1) return true;  // one of the two folds has one term
  const int sum_first = reduction == Reduction::after_accumulation ? batching.world : steps;
  return std::has_single_bit(static_cast<unsigned>(sum_first));
}

}  // namespace zp
