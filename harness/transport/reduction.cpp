// Reduce-scatter by rounds: what others contribute to the range of a round arrives in pieces and is added, in
// the order of places, by one Fold a piece. The last round's sum is divided and rounded once into `mine`.
// In fixed point, the whole is first converted into its image, and all of this happens there.
#include <algorithm>

#include "harness/transport/additions.hpp"

namespace zp::transport {
namespace {

class Reduction final : public Step {
 public:
  Reduction(const Group& group, const Wire& wire, const Sum& sum)
      : group_(group),
        wire_(wire),
        additions_(group.kernels, group.place, sum),
        rounds_(reduce_rounds(group.algorithm, additions_.cuts(), group.place)) {}

  bool uses_pieces() const override { return true; }
  bool complete() const override { return begun_ && round_ >= rounds_.size() && sends_.empty(); }

  bool advance() override {
    bool moved = false;
    if (!begun_) {
      begun_ = moved = true;
      additions_.begin(rounds_.empty());
      begin_round();
    }
    moved |= advance_sends();
    while (round_ < rounds_.size()) {
      moved |= advance_run();
      if (!run_over()) break;
      ++run_;
      if (run_ >= received().size()) {
        ++round_;
        begin_round();
      } else {
        begin_run();
      }
      moved = true;
    }
    return moved;
  }

  std::vector<int> waits_for() const override {
    std::vector<int> ranks;
    for (const auto& stream : streams_) {
      if (!stream->complete() && !stream->here()) ranks.push_back(stream->rank());
    }
    for (const Transfer& send : sends_) ranks.push_back(send.rank());
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

 private:
  void clear_streams() {
    streams_.clear();
    places_.clear();
  }

  // Runs of the whole to which this round's exchanges contribute.
  const std::vector<Range>& received() const { return rounds_[round_].front().received; }

  void begin_round() {
    run_ = 0;
    clear_streams();
    if (round_ >= rounds_.size()) return;
    for (const Exchange& exchange : rounds_[round_]) {
      if (exchange.sent.empty()) continue;
      const int rank = group_.places.rank_at[static_cast<size_t>(exchange.place)];
      sends_.emplace_back(wire_, Direction::send, rank, runs_of(additions_.whole(), exchange.sent), kPiece);
    }
    // All messages before anything is waited for, and receives first.
    begin_run();
    for (size_t i = 0; i < sends_.size(); ++i) {
      if (!waits_its_turn(i)) sends_[i].post();
    }
  }

  void begin_run() {
    clear_streams();
    added_ = {};
    if (run_ >= received().size()) return;
    constexpr Elements kEach{kPiecesPerPeer * kPiece.n / size_of(Type::f32).n};
    Elements pieces;
    for (const Exchange& exchange : rounds_[round_]) {
      if (exchange.received.empty()) continue;
      const int rank = group_.places.rank_at[static_cast<size_t>(exchange.place)];
      places_.push_back(exchange.place);
      streams_.push_back(std::make_unique<PieceStream>(wire_, rank, additions_.whole().type(),
                                                       exchange.received[run_].length(),
                                                       group_.pieces.part({pieces, pieces + kEach})));
      streams_.back()->post();
      pieces += kEach;
    }
  }

  // Messages of one tag arrive in the order sent, so one round's to a rank must not mix with another's.
  bool waits_its_turn(size_t send) const {
    return std::any_of(sends_.begin(), sends_.begin() + static_cast<std::ptrdiff_t>(send),
                       [&](const Transfer& earlier) {
                         return earlier.rank() == sends_[send].rank() && !earlier.complete();
                       });
  }

  bool advance_sends() {
    bool moved = false;
    for (size_t i = 0; i < sends_.size(); ++i) {
      if (!waits_its_turn(i)) moved |= sends_[i].advance();
    }
    std::erase_if(sends_, [](const Transfer& send) { return send.complete(); });
    return moved;
  }

  bool advance_run() {
    bool moved = false;
    for (const auto& stream : streams_) moved |= stream->advance();
    while (!run_over() && std::all_of(streams_.begin(), streams_.end(), [](auto& s) { return s->here(); })) {
      add_pieces();
      for (const auto& stream : streams_) {
        stream->release();
        stream->advance();
      }
      moved = true;
    }
    return moved;
  }

  bool run_over() const {
    return std::all_of(streams_.begin(), streams_.end(), [](const auto& s) { return s->complete(); });
  }

  // Adds the pieces that have arrived, one from each place of the round, to the same run of the own
  // contribution.
  void add_pieces() {
    const Elements length = streams_.front()->piece().length();
    const Elements begin = received()[run_].begin + added_;
    std::vector<std::pair<int, View>> pieces;
    for (size_t i = 0; i < streams_.size(); ++i) pieces.emplace_back(places_[i], streams_[i]->piece());
    additions_.add(std::move(pieces), {begin, begin + length}, round_ + 1 == rounds_.size());
    added_ += length;
  }

  const Group& group_;
  Wire wire_;
  Additions additions_;
  std::vector<Round> rounds_;

  bool begun_ = false;
  size_t round_ = 0, run_ = 0;
  Elements added_;                                     // of this run
  std::vector<std::unique_ptr<PieceStream>> streams_;  // one per exchange of this round that receives
  std::vector<int> places_;                            // whose
  // Of every round so far: what was sent is not touched again, so a round need not wait for it.
  std::vector<Transfer> sends_;
};

}  // namespace

std::unique_ptr<Step> make_reduction(const Group& group, const Wire& wire, const Sum& sum) {
  return std::make_unique<Reduction>(group, wire, sum);
}

}  // namespace zp::transport
