// Conversion, additions and division of a reduce-scatter, as calls of kernels.
#include "harness/transport/additions.hpp"

#include <algorithm>

namespace zp::transport {
namespace {

bool has_image(const Sum& sum) { return sum.fixed.image.storage() != nullptr; }

// What is converted: the whole at once, or the bucket of every slice.
std::vector<Range> sources_of(const Sum& sum) {
  if (!has_image(sum)) return {};
  if (sum.cuts.within.empty()) return {{{0}, sum.cuts.whole()}};
  std::vector<Range> ranges;
  for (int place = 0; place < sum.cuts.world(); ++place) ranges.push_back(sum.cuts.of(place));
  return ranges;
}

Cuts cuts_of_image(const Cuts& cuts) {
  return cuts.within.empty() ? cuts : Cuts::equal(cuts.world(), cuts.within.length());
}

}  // namespace

Additions::Additions(kernels::Table& kernels, int place, const Sum& sum)
    : kernels_(kernels),
      place_(place),
      source_(sum.whole),
      sources_(sources_of(sum)),
      terms_(sum.fixed.terms),
      cuts_(has_image(sum) ? cuts_of_image(sum.cuts) : sum.cuts),
      whole_(has_image(sum) ? sum.fixed.image.part({{0}, cuts_.whole()}) : sum.whole),
      mine_(sum.mine),
      own_(cuts_.of(place)),
      divisor_(sum.divisor) {}

void Additions::begin(bool alone) {
  convert(alone);
  if (alone) divide_alone();
}

void Additions::convert(bool alone) {
  Elements at;
  for (const Range& range : sources_) {
    if (range.empty()) continue;
    const bool is_result = alone && mine_.view().type() == Type::i64;
    const View into = is_result ? mine_.view() : whole_.view().part({at, at + range.length()});
    kernels_.run(kernels::ToFixed{.from = source_.view().part(range), .to = into, .terms = terms_});
    at += range.length();
  }
}

void Additions::divide_alone() {
  if (own_.empty() || (!sources_.empty() && mine_.view().type() == Type::i64)) return;
  const View own = whole_.view().part(own_);
  if (divisor_ == 1.0F && own.raw() == mine_.view().raw()) return;
  kernels_.run(kernels::Fold{.inputs = {own}, .out = mine_.view(), .divisor = divisor_});
}

void Additions::add(std::vector<std::pair<int, View>> pieces, const Range& range, bool last) {
  const View own = whole_.view().part(range);
  pieces.emplace_back(place_, own);
  std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  kernels::Fold fold;
  for (const auto& [place, view] : pieces) fold.inputs.push_back(view);
  if (last) {
    fold.out = mine_.view().part({range.begin - own_.begin, range.end - own_.begin});
    fold.divisor = divisor_;
  } else {
    fold.out = own;
  }
  kernels_.run(fold);
}

View summed_by_library(kernels::Table& kernels, const View& whole, const FixedPoint& fixed) {
  if (fixed.image.storage() == nullptr) return whole;
  const View image = fixed.image.part({{0}, whole.length()});
  if (!whole.empty()) kernels.run(kernels::ToFixed{.from = whole, .to = image, .terms = fixed.terms});
  return image;
}

void deliver(kernels::Table& kernels, const View& sum, const View& into, float divisor, Stream* stream) {
  if (into.empty()) return;
  if (sum.type() != into.type() || divisor != 1.0F) {
    kernels.run(kernels::Fold{.inputs = {sum}, .out = into, .divisor = divisor});
  } else if (sum.raw() != into.raw()) {
    copy(sum, into, stream);
  }
}

}  // namespace zp::transport
