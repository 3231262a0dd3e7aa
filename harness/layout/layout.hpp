// How a model's parameters are cut: tensors into units, units into equal slices, one per place. Pure
// arithmetic: no memory, no messages. Slices of a unit have equal length; the last ones may end in padding,
// which is zero, is stored and sent in every stage, and is never trained or hashed (design 5).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/quantities.hpp"

namespace zp {

enum class Init { normal, ones, zeros };

// One logical tensor: what a user would call "block.3.qkv.weight".
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  Init init = Init::zeros;
  float scale = 0.0F;  // standard deviation where init is normal
};

Elements element_count(const TensorSpec& tensor);
// Weight decay acts on tensors of two or more dimensions only.
bool decays(const TensorSpec& tensor);

// Parameters that are gathered, reduced and dropped together.
struct UnitSpec {
  std::string name;
  std::vector<TensorSpec> tensors;
  // An earlier unit whose parameters this one reads too, and whose gradient it adds to (a tied token table);
  // -1: none.
  int borrows = -1;
  bool frozen = false;  // never trained: it has parameters, and neither gradients nor optimizer state
};

// Who stands where in the fold (design 3.4): rank_at[p] is the rank at place p. Default: place = rank.
struct Places {
  std::vector<int> rank_at;
  std::vector<int> node_of = {};  // by rank; empty: all ranks are on one node
  static Places in_rank_order(int world);
  // Ranks of one node as far apart as can be: the first of every node, then the second of every node, …. With
  // s ranks on each of R nodes that is place = local·R + node.
  static Places by_node(const std::vector<int>& node_of);
  int place_of(int rank) const;
  bool on_one_node(int rank, int other) const;
  int nodes() const;
  int ranks_per_node() const;  // 0: nodes hold unequal numbers
};

// A tensor where it lies in its unit.
struct TensorLayout {
  TensorSpec spec;
  int index = 0;           // over the whole model, in unit order
  Range in_unit;           // elements of the unit
  Elements logical_begin;  // its first element's number over the whole model, padding excluded
};

struct UnitLayout {
  std::string name;
  int index = 0;
  std::vector<TensorLayout> tensors;
  Elements length;         // P_u: parameters, without padding
  Elements slice;          // L_u = a·ceil(P_u/(a·N)): elements of one slice
  Elements padded;         // N·L_u
  Elements logical_begin;  // of its first tensor
  int borrows = -1;        // as in UnitSpec
  bool frozen = false;

  // Slice of `place`, padding included.
  Range slice_of(int place) const;
  // Slice of `place` without padding; may be empty.
  Range owned_by(int place) const;
};

// The part of one tensor that lies in a range of its unit.
struct TensorRun {
  const TensorLayout* tensor = nullptr;
  Range in_unit;
};

class Layout {
 public:
  // `alignment` a: 64 in the product (blocks of the gradient norm), 1 in worked examples. Throws (internal)
  // for world < 1, alignment < 1, a unit without parameters, one that borrows a later unit or one that
  // borrows itself, a model of which nothing is trained, or places that are not a permutation.
  Layout(const std::vector<UnitSpec>& units, int world, int64_t alignment = 64);
  Layout(const std::vector<UnitSpec>& units, const Places& places, int64_t alignment = 64);

  int world() const { return world_; }
  int64_t alignment() const { return alignment_; }
  const Places& places() const { return places_; }
  const std::vector<UnitLayout>& units() const { return units_; }
  const UnitLayout& unit(int index) const { return units_.at(static_cast<size_t>(index)); }
  int unit_count() const { return static_cast<int>(units_.size()); }
  int tensor_count() const { return tensor_count_; }

  Elements parameters() const { return parameters_; }  // Ψ, without padding
  Elements padded() const { return padded_; }          // sum of the units' padded lengths
  Elements slices() const { return slices_; }          // sum of the units' slices: one rank's share

  // Units that are not frozen, in order.
  const std::vector<int>& trained() const { return trained_; }

 private:
  int world_ = 1;
  int64_t alignment_ = 64;
  Places places_;
  std::vector<UnitLayout> units_;
  int tensor_count_ = 0;
  Elements parameters_, padded_, slices_;
  std::vector<int> trained_;
};

// The tensors that `range` of `unit` touches, in order; padding yields nothing.
std::vector<TensorRun> runs(const UnitLayout& unit, Range range);

}  // namespace zp
