// The two steps that collectives are made of, as state machines over a Link: a reduction and a gather. They
// follow the rounds of any algorithm, never block, and keep no memory but the pieces they are given.
#pragma once

#include <memory>
#include <vector>

#include "harness/transport/rounds.hpp"
#include "harness/transport/transfer.hpp"

namespace zp::transport {

// This rank among the others, and what it computes with.
struct Group {
  int place = 0;
  Places places;
  Algorithm algorithm = Algorithm::direct;
  kernels::Table& kernels;
  View pieces;  // fp32; peers_at_once times kPiecesPerPeer·kPiece bytes, for one reduction at a time
};

class Step {
 public:
  Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  virtual ~Step() = default;
  // Does what can be done now; true when something moved.
  virtual bool advance() = 0;
  virtual bool complete() const = 0;
  // Only one such step may advance at a time.
  virtual bool uses_pieces() const = 0;
  // Ranks whose messages are outstanding, ascending.
  virtual std::vector<int> waits_for() const = 0;
};

// A view's memory under a storage of its own, with which no transfer is registered: kernels that run inside a
// collective must not wait for that collective.
class Alias {
 public:
  explicit Alias(const View& view) : range_(view.range()) {
    if (view.storage() == nullptr) return;
    storage_.category = view.storage()->category;
    storage_.type = view.storage()->type;
    storage_.length = view.storage()->length;
    storage_.data = view.storage()->data;
    storage_.far = view.storage()->far;
  }
  Alias(const Alias&) = delete;
  Alias& operator=(const Alias&) = delete;
  View view() { return {&storage_, range_}; }

 private:
  Storage storage_;
  Range range_;
};

inline std::vector<std::span<std::byte>> runs_of(const View& whole, const std::vector<Range>& ranges) {
  std::vector<std::span<std::byte>> runs;
  runs.reserve(ranges.size());
  for (const Range& range : ranges) {
    const View run = whole.part(range);
    runs.emplace_back(static_cast<std::byte*>(run.raw()), static_cast<size_t>(run.bytes().n));
  }
  return runs;
}

struct Sum {
  View whole, mine;
  Cuts cuts;
  float divisor = 1.0F;
  FixedPoint fixed;
};

// mine = own slice of the sum over places, divided; whole, or its image, is scratch.
std::unique_ptr<Step> make_reduction(const Group& group, const Wire& wire, const Sum& sum);

// Every other place's slice of `whole`; the own slice lies there already.
std::unique_ptr<Step> make_gather(const Group& group, const Wire& wire, const View& whole, const Cuts& cuts);

}  // namespace zp::transport
