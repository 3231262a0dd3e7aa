// Transfers and what calls make of them. See nccl_calls.hpp.
#include "correctness/cuda_emulator/nccl_calls.hpp"

#include <cstdio>
#include <cstring>

#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::emulated {

namespace {

constexpr int kNapUs = 1000;

}  // namespace

const char* name_of(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce: return "ncclAllReduce";
    case CallKind::reduce_scatter: return "ncclReduceScatter";
    case CallKind::all_gather: return "ncclAllGather";
    case CallKind::broadcast: return "ncclBroadcast";
    case CallKind::reduce: return "ncclReduce";
    case CallKind::send: return "ncclSend";
    case CallKind::receive: return "ncclRecv";
  }
  return "unknown";
}

// ---- One message

Transfer::Transfer(ncclComm& comm, const Description& what, int peer, Direction direction,
                   unsigned char* data, std::size_t bytes)
    : comm_(&comm), what_(what), peer_(peer), direction_(direction), data_(data), bytes_(bytes) {
  const bool sends = direction == Direction::send;
  ring_ = sends ? &comm.rings->ring(comm.rank, peer) : &comm.rings->ring(peer, comm.rank);
}

bool Transfer::can_move() const {
  if (!fits_) return false;
  if (direction_ == Direction::receive) return ring_->filled() > 0;
  if (moved_ < bytes_ || described_ < sizeof what_) return ring_->filled() < kRingBytes;
  return ring_->consumed.load(std::memory_order_acquire) >= end_;
}

void Transfer::move() {
  if (direction_ == Direction::send) {
    send();
  } else {
    receive();
  }
}

// A send of its own is over when its receiver has taken it; within a collective others wait anyway.
void Transfer::send() {
  const auto* const header = reinterpret_cast<const unsigned char*>(&what_);
  std::size_t put = 0;
  if (described_ < sizeof what_) {
    put = ring_->put(header + described_, sizeof what_ - described_);
    described_ += put;
  }
  if (described_ == sizeof what_ && moved_ < bytes_) {
    const std::size_t more = ring_->put(data_ + moved_, bytes_ - moved_);
    moved_ += more;
    put += more;
  }
  if (put > 0) comm_->rings->wake(peer_);
  if (described_ < sizeof what_ || moved_ < bytes_) return;
  end_ = end_ == 0 ? ring_->written.load(std::memory_order_relaxed) : end_;
  done_ = what_.kind != CallKind::send || ring_->consumed.load(std::memory_order_acquire) >= end_;
}

void Transfer::receive() {
  auto* const header = reinterpret_cast<unsigned char*>(&theirs_);
  std::size_t got = 0;
  if (described_ < sizeof theirs_) {
    got = ring_->get(header + described_, sizeof theirs_ - described_);
    described_ += got;
    if (described_ == sizeof theirs_) fits_ = fits(theirs_);
  }
  if (!fits_) return;
  if (described_ == sizeof theirs_ && moved_ < bytes_) {
    const std::size_t more = ring_->get(data_ + moved_, bytes_ - moved_);
    moved_ += more;
    got += more;
  }
  if (got > 0) comm_->rings->wake(peer_);
  done_ = described_ == sizeof theirs_ && moved_ == bytes_;
}

bool Transfer::fits(const Description& theirs) const {
  Description expected = what_;
  if (what_.kind == CallKind::receive) {
    expected.kind = CallKind::send;
    expected.sequence = theirs.sequence;  // messages between two ranks are counted by their order alone
  }
  if (theirs == expected) return true;
  if (settings().nccl_mismatch == 0) return false;
  const auto text = [](const Description& of, char(&to)[160]) {
    std::snprintf(to, sizeof to, "%s of %llu %s (%s, root %d, collective %u)", name_of(of.kind),
                  static_cast<unsigned long long>(of.count), name_of(of.type), name_of(of.reduction), of.root,
                  of.sequence);
    return to;
  };
  char mine[160];
  char other[160];
  fault("ranks call different things: rank %d of %d %s; rank %d %s", comm_->rank, comm_->world,
        text(what_, mine), peer_, text(theirs, other));
}

// ---- A group of calls

Calls::Calls(Shared<ncclComm> comm, std::vector<Call> calls, Ends ends)
    : Operation(text_),
      comm_(std::move(comm)),
      calls_(std::move(calls)),
      turn_(comm_->issued.fetch_add(1)),
      ends_(ends) {
  std::snprintf(text_, sizeof text_, "%s%s, rank %d of %d", name_of(calls_.front().what.kind),
                calls_.size() > 1 ? " in a group" : "", comm_->rank, comm_->world);
}

bool Calls::first_of_its_ring(std::size_t transfer) const {
  for (std::size_t i = 0; i < transfer; ++i) {
    const Transfer& before = transfers_[i];
    const bool same = before.peer() == transfers_[transfer].peer() &&
                      before.direction() == transfers_[transfer].direction();
    if (same && !before.done()) return false;
  }
  return true;
}

// Operations of one communicator run in the order in which they were issued.
bool Calls::ready() {
  heard_.store(comm_->rings->heard(comm_->rank), std::memory_order_release);
  if (comm_->finished.load() != turn_) return false;
  if (comm_->aborted.load()) return true;
  if (ends_ == Ends::never) return false;
  if (!begun_) return true;
  bool all_done = true;
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    if (transfers_[i].done()) continue;
    all_done = false;
    if (first_of_its_ring(i) && transfers_[i].can_move()) return true;
  }
  return all_done;
}

void Calls::await() { comm_->rings->listen(comm_->rank, heard_.load(std::memory_order_acquire), kNapUs); }

bool Calls::step() {
  // What was under way may have left half a message in a ring: nothing more is put there, or taken.
  const bool over = comm_->aborted.load() || transferred();
  if (!over) return false;
  comm_->finished.fetch_add(1);
  comm_->rings->wake(comm_->rank);
  return true;
}

// Moves what can be moved, and finishes the calls once everything was.
bool Calls::transferred() {
  if (ends_ == Ends::never) return false;
  if (!begun_) begin();
  bool done = true;
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    if (!transfers_[i].done() && first_of_its_ring(i)) transfers_[i].move();
    done = done && transfers_[i].done();
  }
  for (std::size_t i = 0; done && i < calls_.size(); ++i) finish(calls_[i], i);
  return done;
}

void Calls::begin() {
  begun_ = true;
  for (index_ = 0; index_ < calls_.size(); ++index_) begin(calls_[index_]);
}

void Calls::add(const Call& call, int peer, Transfer::Direction direction, const unsigned char* data,
                std::size_t bytes) {
  transfers_.emplace_back(*comm_.get(), call.what, peer, direction, const_cast<unsigned char*>(data), bytes);
}

unsigned char* Calls::stage(std::size_t index, int peer, std::size_t bytes) {
  stages_.push_back({index, peer, std::unique_ptr<unsigned char[]>(new unsigned char[bytes])});
  return stages_.back().bytes.get();
}

void Calls::begin(const Call& call) {
  using enum Transfer::Direction;
  const std::size_t bytes = call.what.count * size_of(call.what.type);
  const int me = comm_->rank;
  const CallKind kind = call.what.kind;
  if (kind == CallKind::send) return add(call, call.peer, send, call.from, bytes);
  if (kind == CallKind::receive) return add(call, call.peer, receive, call.to, bytes);
  for (int peer = 0; peer < comm_->world; ++peer) {
    if (peer == me) continue;
    const auto at = static_cast<std::size_t>(peer) * bytes;
    if (kind == CallKind::all_gather) {
      add(call, peer, send, call.from, bytes);
      add(call, peer, receive, call.to + at, bytes);
    } else if (kind == CallKind::reduce_scatter) {
      add(call, peer, send, call.from + at, bytes);
      add(call, peer, receive, stage(index_, peer, bytes), bytes);
    } else if (kind == CallKind::all_reduce) {
      add(call, peer, send, call.from, bytes);
      add(call, peer, receive, stage(index_, peer, bytes), bytes);
    } else if (kind == CallKind::broadcast) {
      if (me == call.what.root) add(call, peer, send, call.from, bytes);
      if (peer == call.what.root) add(call, peer, receive, call.to, bytes);
    } else {
      if (peer == call.what.root) add(call, peer, send, call.from, bytes);
      if (me == call.what.root) add(call, peer, receive, stage(index_, peer, bytes), bytes);
    }
  }
}

void Calls::finish(const Call& call, std::size_t index) {
  const std::size_t bytes = call.what.count * size_of(call.what.type);
  const std::size_t my_slice = static_cast<std::size_t>(comm_->rank) * bytes;
  const bool root = comm_->rank == call.what.root;
  switch (call.what.kind) {
    case CallKind::all_gather:
      if (call.to + my_slice != call.from) std::memcpy(call.to + my_slice, call.from, bytes);
      break;
    case CallKind::broadcast:
      if (root && call.to != call.from) std::memcpy(call.to, call.from, bytes);
      break;
    case CallKind::reduce_scatter: reduce(call, call.from + my_slice, index); break;
    case CallKind::all_reduce: reduce(call, call.from, index); break;
    case CallKind::reduce:
      if (root) reduce(call, call.from, index);
      break;
    case CallKind::send:
    case CallKind::receive: break;
  }
}

// In the order of ranks, in memory of its own: the result may lie where a part does.
void Calls::reduce(const Call& call, const unsigned char* mine, std::size_t index) {
  const Reduction reduction{call.what.type, call.what.reduction, comm_->world};
  const std::size_t bytes = call.what.count * size_of(call.what.type);
  const std::unique_ptr<unsigned char[]> total(new unsigned char[bytes]);
  note_read(mine, bytes);
  for (int rank = 0; rank < comm_->world; ++rank) {
    const unsigned char* part = mine;
    for (const Stage& stage : stages_) {
      if (stage.call == index && stage.peer == rank) part = stage.bytes.get();
    }
    if (rank == 0) {
      begin_reduction(reduction, total.get(), part, call.what.count);
    } else {
      continue_reduction(reduction, total.get(), part, call.what.count);
    }
  }
  std::memcpy(call.to, total.get(), bytes);
}

}  // namespace zp::emulated
