// Reduce-scatter by rounds: what others contribute to the range of a round arrives in pieces and is added, in
// the order of places, by one Fold a piece. The last round's sum is divided and rounded once into `mine`.
// In fixed point, the whole is first converted into its image, and all of this happens there.
#include <algorithm>

#include "harness/transport/steps.hpp"

namespace zp::transport {
namespace {

class Reduction final : public Step {
 public:
  Reduction(const Group& group, const Wire& wire, const Sum& sum)
      : group_(group),
        wire_(wire),
        source_(sum.whole),
        sources_(sources_of(sum)),
        terms_(sum.fixed.terms),
        cuts_(has_image(sum) ? cuts_of_image(sum.cuts) : sum.cuts),
        whole_(has_image(sum) ? sum.fixed.image.part({{0}, cuts_.whole()}) : sum.whole),
        mine_(sum.mine),
        own_(cuts_.of(group.place)),
        divisor_(sum.divisor),
        rounds_(reduce_rounds(group.algorithm, cuts_, group.place)) {}

  bool uses_pieces() const override { return true; }
  bool complete() const override { return begun_ && round_ >= rounds_.size() && sends_.empty(); }

  bool advance() override {
    bool moved = false;
    if (!begun_) {
      begun_ = moved = true;
      convert();
      if (rounds_.empty()) divide_alone();
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
  static bool has_image(const Sum& sum) { return sum.fixed.image.storage() != nullptr; }

  // What is converted: the whole at once, or the bucket of every slice.
  static std::vector<Range> sources_of(const Sum& sum) {
    if (!has_image(sum)) return {};
    if (sum.cuts.within.empty()) return {{{0}, sum.cuts.whole()}};
    std::vector<Range> ranges;
    for (int place = 0; place < sum.cuts.world(); ++place) ranges.push_back(sum.cuts.of(place));
    return ranges;
  }

  // In the image the buckets of all slices lie side by side.
  static Cuts cuts_of_image(const Cuts& cuts) {
    return cuts.within.empty() ? cuts : Cuts::equal(cuts.world(), cuts.within.length());
  }

  void convert() {
    Elements at;
    for (const Range& range : sources_) {
      if (range.empty()) continue;
      const bool alone = rounds_.empty() && mine_.view().type() == Type::i64;
      const View into = alone ? mine_.view() : whole_.view().part({at, at + range.length()});
      group_.kernels.run(kernels::ToFixed{.from = source_.view().part(range), .to = into, .terms = terms_});
      at += range.length();
    }
  }

  // One place alone: the sum is its own slice.
  void divide_alone() {
    if (own_.empty() || (!sources_.empty() && mine_.view().type() == Type::i64)) return;
    const View own = whole_.view().part(own_);
    if (divisor_ == 1.0F && own.raw() == mine_.view().raw()) return;
    group_.kernels.run(kernels::Fold{.inputs = {own}, .out = mine_.view(), .divisor = divisor_});
  }

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
      sends_.emplace_back(wire_, Direction::send, rank, views_of(whole_.view(), exchange.sent), kPiece);
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
      streams_.push_back(std::make_unique<PieceStream>(wire_, rank, whole_.view().type(),
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
    const View own = whole_.view().part({begin, begin + length});
    std::vector<std::pair<int, View>> by_place{{group_.place, own}};
    for (size_t i = 0; i < streams_.size(); ++i) by_place.emplace_back(places_[i], streams_[i]->piece());
    std::sort(by_place.begin(), by_place.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });

    kernels::Fold fold;
    for (const auto& [place, view] : by_place) fold.inputs.push_back(view);
    if (round_ + 1 == rounds_.size()) {
      fold.out = mine_.view().part({added_, added_ + length});
      fold.divisor = divisor_;
    } else {
      fold.out = own;
    }
    group_.kernels.run(fold);
    added_ += length;
  }

  const Group& group_;
  Wire wire_;
  Alias source_;                // fp32, where whole_ is its image
  std::vector<Range> sources_;  // of it; none without an image
  int64_t terms_;
  Cuts cuts_;
  Alias whole_, mine_;
  Range own_;
  float divisor_;
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
