// All-gather by rounds: ranges travel straight from their place in one rank's whole to the same place in
// another's.
#include <algorithm>

#include "harness/transport/steps.hpp"

namespace zp::transport {
namespace {

class Gather final : public Step {
 public:
  Gather(const Group& group, const Wire& wire, const View& whole, const Cuts& cuts)
      : group_(group),
        wire_(wire),
        whole_(whole),
        rounds_(gather_rounds(group.algorithm, cuts, group.place)) {}

  bool uses_pieces() const override { return false; }
  bool complete() const override { return begun_ && round_ >= rounds_.size(); }

  bool advance() override {
    bool moved = false;
    if (!begun_) {
      begun_ = moved = true;
      begin_round();
    }
    while (round_ < rounds_.size()) {
      for (Transfer& transfer : transfers_) moved |= transfer.advance();
      std::erase_if(transfers_, [](const Transfer& transfer) { return transfer.complete(); });
      if (!transfers_.empty()) break;
      ++round_;
      begin_round();
      moved = true;
    }
    return moved;
  }

  std::vector<int> waits_for() const override {
    std::vector<int> ranks;
    for (const Transfer& transfer : transfers_) ranks.push_back(transfer.rank());
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

 private:
  void begin_round() {
    if (round_ >= rounds_.size()) return;
    // All of them before anything is waited for, and receives first: a message that finds its receive posted
    // needs no room of its own.
    transfers_.reserve(2 * rounds_[round_].size());
    for (const Direction direction : {Direction::receive, Direction::send}) {
      for (const Exchange& exchange : rounds_[round_]) {
        const auto& ranges = direction == Direction::send ? exchange.sent : exchange.received;
        if (ranges.empty()) continue;
        const int rank = group_.places.rank_at[static_cast<size_t>(exchange.place)];
        transfers_.emplace_back(wire_, direction, rank, runs_of(whole_.view(), ranges), kLongestMessage);
        transfers_.back().post();
      }
    }
  }

  const Group& group_;
  Wire wire_;
  Alias whole_;
  std::vector<Round> rounds_;

  bool begun_ = false;
  size_t round_ = 0;
  std::vector<Transfer> transfers_;
};

}  // namespace

std::unique_ptr<Step> make_gather(const Group& group, const Wire& wire, const View& whole, const Cuts& cuts) {
  return std::make_unique<Gather>(group, wire, whole, cuts);
}

}  // namespace zp::transport
