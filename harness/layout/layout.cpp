// How a model's parameters are cut. Pure arithmetic.
#include "harness/layout/layout.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "harness/base/check.hpp"

namespace zp {

Elements element_count(const TensorSpec& tensor) {
  return {std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>())};
}

bool decays(const TensorSpec& tensor) { return tensor.shape.size() >= 2; }

Places Places::in_rank_order(int world) {
  Places places;
  places.rank_at.resize(static_cast<size_t>(std::max(world, 0)));
  std::iota(places.rank_at.begin(), places.rank_at.end(), 0);
  return places;
}

Places Places::by_node(const std::vector<int>& node_of) {
  Places places = in_rank_order(static_cast<int>(node_of.size()));
  places.node_of = node_of;
  const auto node = [&](int rank) { return node_of[static_cast<size_t>(rank)]; };
  // How many ranks of its node come before a rank.
  const auto local = [&](int rank) {
    return std::count(node_of.begin(), node_of.begin() + rank, node(rank));
  };
  std::ranges::sort(places.rank_at, {}, [&](int rank) { return std::pair(local(rank), node(rank)); });
  return places;
}

bool Places::on_one_node(int rank, int other) const {
  if (node_of.empty()) return true;
  return node_of.at(static_cast<size_t>(rank)) == node_of.at(static_cast<size_t>(other));
}

int Places::nodes() const {
  return node_of.empty() ? 1 : static_cast<int>(std::set<int>(node_of.begin(), node_of.end()).size());
}

int Places::ranks_per_node() const {
  const auto world = static_cast<int>(rank_at.size());
  const int each = world / nodes();
  const bool equal = std::ranges::all_of(
      node_of, [&](int node) { return std::count(node_of.begin(), node_of.end(), node) == each; });
  return equal ? each : 0;
}

int Places::place_of(int rank) const {
  const auto at = std::find(rank_at.begin(), rank_at.end(), rank);
  require(at != rank_at.end(), "every rank has a place");
  return static_cast<int>(at - rank_at.begin());
}

Range UnitLayout::slice_of(int place) const {
  const Range all{{slice.n * place}, {slice.n * (place + 1)}};
  require(place >= 0 && all.end <= padded, "a place lies in the world");
  return all;
}

Range UnitLayout::owned_by(int place) const {
  const Range all = slice_of(place);
  return {std::min(all.begin, length), std::min(all.end, length)};
}

Layout::Layout(const std::vector<UnitSpec>& units, int world, int64_t alignment)
    : Layout(units, Places::in_rank_order(world), alignment) {}

Layout::Layout(const std::vector<UnitSpec>& units, const Places& places, int64_t alignment)
    : world_(static_cast<int>(places.rank_at.size())), alignment_(alignment), places_(places) {
  require(world_ > 0, "a world has at least one rank");
  require(alignment > 0, "an alignment is at least one element");
  require(!units.empty(), "a model has at least one unit");
  for (int rank = 0; rank < world_; ++rank) places_.place_of(rank);

  const int64_t stride = alignment * world_;
  for (const UnitSpec& spec : units) {
    UnitLayout unit;
    unit.name = spec.name;
    unit.index = unit_count();
    unit.logical_begin = parameters_;
    unit.borrows = spec.borrows;
    unit.frozen = spec.frozen;
    require(unit.borrows < unit.index, "a unit borrows an earlier one");
    require(unit.borrows < 0 || units_[static_cast<size_t>(unit.borrows)].borrows < 0,
            "a unit that is borrowed borrows none");
    if (!unit.frozen) trained_.push_back(unit.index);
    for (const TensorSpec& tensor : spec.tensors) {
      const Elements count = element_count(tensor);
      require(count.n > 0, "a tensor has at least one element");
      unit.tensors.push_back({.spec = tensor,
                              .index = tensor_count_++,
                              .in_unit = {unit.length, unit.length + count},
                              .logical_begin = parameters_ + unit.length});
      unit.length += count;
    }
    require(unit.length.n > 0, "a unit has at least one parameter");
    unit.slice = {alignment * ((unit.length.n + stride - 1) / stride)};
    unit.padded = unit.slice * world_;
    parameters_ += unit.length;
    padded_ += unit.padded;
    slices_ += unit.slice;
    units_.push_back(std::move(unit));
  }
  require(!trained_.empty(), "a model has a unit that is trained");
}

std::vector<TensorRun> runs(const UnitLayout& unit, Range range) {
  std::vector<TensorRun> found;
  for (const TensorLayout& tensor : unit.tensors) {
    const Range part = intersection(tensor.in_unit, range);
    if (!part.empty()) found.push_back({.tensor = &tensor, .in_unit = part});
  }
  return found;
}

}  // namespace zp
