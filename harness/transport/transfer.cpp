// Posting, testing and slicing of messages.
#include "harness/transport/transfer.hpp"

#include <algorithm>

namespace zp::transport {

Transfer::Transfer(const Wire& wire, Direction direction, int rank, std::vector<std::span<std::byte>> runs,
                   Bytes longest)
    : wire_(wire),
      direction_(direction),
      rank_(rank),
      longest_(static_cast<size_t>(longest.n)),
      runs_(std::move(runs)) {}

bool Transfer::post() {
  bool any = false;
  for (std::unique_ptr<Request>& request : in_flight_) {
    if (request != nullptr) continue;
    if (run_ == runs_.size()) break;
    std::span<std::byte>& run = runs_[run_];
    const std::span<std::byte> message = run.first(std::min(longest_, run.size()));
    request = direction_ == Direction::send ? wire_.link->send(rank_, wire_.tag, message)
                                            : wire_.link->receive(rank_, wire_.tag, message);
    run = run.subspan(message.size());
    if (run.empty()) ++run_;
    any = true;
  }
  return any;
}

bool Transfer::advance() {
  bool moved = post();
  while (in_flight_.front() != nullptr && in_flight_.front()->done()) {
    in_flight_.front().reset();
    std::rotate(in_flight_.begin(), in_flight_.begin() + 1, in_flight_.end());
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
