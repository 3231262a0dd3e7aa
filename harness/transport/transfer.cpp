// Posting, testing and slicing of messages.
#include "harness/transport/transfer.hpp"

#include <algorithm>

namespace zp::transport {
namespace {

// Messages of one transfer: the next one follows without a pause, and each still ends soon after the one
// before.
constexpr size_t kInFlight = 2;

}  // namespace

Transfer::Transfer(const Wire& wire, Direction direction, int rank, const std::vector<View>& runs,
                   Bytes longest)
    : wire_(wire), direction_(direction), rank_(rank) {
  for (const View& run : runs) {
    std::span<std::byte> rest(static_cast<std::byte*>(run.raw()), static_cast<size_t>(run.bytes().n));
    while (!rest.empty()) {
      messages_.push_back(rest.first(std::min(static_cast<size_t>(longest.n), rest.size())));
      rest = rest.subspan(messages_.back().size());
    }
  }
}

bool Transfer::post() {
  const size_t before = posted_;
  for (; posted_ < messages_.size() && in_flight_.size() < kInFlight; ++posted_) {
    const std::span<std::byte> message = messages_[posted_];
    in_flight_.push_back(direction_ == Direction::send ? wire_.link->send(rank_, wire_.tag, message)
                                                       : wire_.link->receive(rank_, wire_.tag, message));
  }
  return posted_ > before;
}

bool Transfer::advance() {
  bool moved = post();
  while (!in_flight_.empty() && in_flight_.front()->done()) {
    in_flight_.erase(in_flight_.begin());
    post();
    moved = true;
  }
  return moved;
}

PieceStream::PieceStream(const Wire& wire, int rank, Type type, Elements length, const View& memory)
    : wire_(wire), rank_(rank), length_(length), per_piece_{kPiece.n / size_of(type).n} {
  count_ = (length.n + per_piece_.n - 1) / per_piece_.n;
  require(memory.bytes() >= kPiece * kPiecesPerPeer, "pieces have their memory");
  auto* data = static_cast<std::byte*>(memory.raw());
  for (Slot& slot : slots_) {
    slot.storage.type = type;
    slot.storage.category = Category::transport;
    slot.storage.length = per_piece_;
    slot.storage.data = data;
    slot.storage.far = memory.storage()->far;
    data += kPiece.n;
  }
}

View PieceStream::view_of(int64_t piece) {
  const Elements length = std::min(per_piece_, length_ - per_piece_ * piece);
  return {&slot(piece).storage, {{0}, length}};
}

View PieceStream::piece() { return view_of(used_); }

bool PieceStream::post() {
  const int64_t before = posted_;
  for (; posted_ < count_ && posted_ < used_ + kPiecesPerPeer; ++posted_) {
    const View into = view_of(posted_);
    slot(posted_).request = wire_.link->receive(
        rank_, wire_.tag, {static_cast<std::byte*>(into.raw()), static_cast<size_t>(into.bytes().n)});
  }
  return posted_ > before;
}

bool PieceStream::advance() {
  bool moved = post();
  for (; arrived_ < posted_ && slot(arrived_).request->done(); ++arrived_) {
    slot(arrived_).request.reset();
    moved = true;
  }
  return moved;
}

void PieceStream::release() {
  require(here(), "a piece is released after it has arrived");
  ++used_;
}

}  // namespace zp::transport
