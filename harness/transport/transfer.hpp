// One run of bytes between two ranks, as messages of bounded length: straight out of and into memory
// (Transfer), or received piece by piece into memory that is used again (PieceStream). Nothing blocks;
// destroying one withdraws it.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "harness/transport/transport.hpp"

namespace zp::transport {

// Where the messages of one collective go.
struct Wire {
  Link* link = nullptr;
  Tag tag;
};

enum class Direction { send, receive };

// Runs of bytes, sent or received straight, one after another. A few messages are in flight at a time.
class Transfer {
 public:
  Transfer(const Wire& wire, Direction direction, int rank, std::vector<std::span<std::byte>> runs,
           Bytes longest);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  Transfer(Transfer&&) = default;
  Transfer& operator=(Transfer&&) = default;

  // Posts what may be in flight, without looking for what has ended; true when something was posted.
  bool post();
  // Posts and completes what it can; true when something moved.
  bool advance();
  bool complete() const { return run_ == runs_.size() && in_flight_.front() == nullptr; }
  int rank() const { return rank_; }

 private:
  // The next message follows without a pause, and each still ends soon after the one before.
  static constexpr size_t kInFlight = 2;

  Wire wire_;
  Direction direction_;
  int rank_;
  size_t longest_;
  std::vector<std::span<std::byte>> runs_;  // the one that is being posted without what has been
  size_t run_ = 0;
  std::array<std::unique_ptr<Request>, kInFlight> in_flight_;  // oldest first, then none
};

// A run of elements from one rank, received into kPiecesPerPeer pieces by turns: the next piece may arrive
// while the oldest is in use.
class PieceStream {
 public:
  // `memory`: kPiecesPerPeer·kPiece bytes.
  PieceStream(const Wire& wire, int rank, Type type, Elements length, const View& memory);
  PieceStream(const PieceStream&) = delete;
  PieceStream& operator=(const PieceStream&) = delete;

  // As a transfer's.
  bool post();
  bool advance();
  bool here() const { return arrived_ > used_; }  // the oldest piece that is not yet used has arrived
  View piece();                                   // that piece
  void release();                                 // it has been used
  bool complete() const { return used_ == count_; }
  int rank() const { return rank_; }

 private:
  struct Slot {
    Storage storage;
    std::unique_ptr<Request> request;
  };
  Slot& slot(int64_t piece) { return slots_[static_cast<size_t>(piece % kPiecesPerPeer)]; }
  View view_of(int64_t piece);

  Wire wire_;
  int rank_;
  Elements length_, per_piece_;
  int64_t count_;
  int64_t posted_ = 0, arrived_ = 0, used_ = 0;  // pieces
  std::array<Slot, kPiecesPerPeer> slots_;
};

}  // namespace zp::transport
