// What the ranks of one run of an MPI job know of each other's failures, and how memory is taken back from
// messages that will not end by themselves.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "harness/transport/mpi_line.hpp"
#include "harness/transport/patience.hpp"
#include "harness/transport/transfer.hpp"

namespace zp::transport {

// A message on the way between this rank and a peer. Its memory is MPI's until it is no longer active.
struct Transit {
  Direction direction = Direction::send;
  int peer = 0;
  Posted posted;
  Posted::Outcome outcome{.state = Posted::State::cancelled};  // until MPI has taken it
  int64_t asked_at = 0;  // the job's number of polls when somebody last asked
  bool active() const { return outcome.state == Posted::State::active; }
};

// Tags of the control line. Collective calls count on from kCall.
enum ControlTag : int { kFailure, kAlive, kLastWords, kWithdrawal, kGone, kCall };

// [Note: taking memory back]
// A rank that fails gives its buffers up while messages are under way. A receive can be cancelled. A send
// cannot, and MPI may read its memory at any later call, as soon as the peer's receive meets it: so the peer
// must promise first that no receive of its will. The rank says that it withdraws; the peer, as soon as it
// looks, cancels its receives from that rank, posts no further ones, and answers that it is gone. Both go on
// serving MPI until all has ended. A peer that does not look for kMoment leaves this process with messages
// that MPI must never touch: MPI is then given up.
class Job {
 public:
  explicit Job(double timeout_s);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Line messages, control, collectives;
  int rank() const { return control.rank(); }
  int world() const { return control.world(); }

  // ---- Messages between ranks
  void send(Transit& transit, int peer, int tag, std::span<const std::byte> bytes);
  void receive(Transit& transit, int peer, int tag, std::span<std::byte> bytes);
  // Looks at the network at most once for as many messages as are asked after in turn: MPI gives the core
  // away whenever it finds nothing.
  void advance(Transit& transit);
  // On return MPI does not touch the message's memory any more, or has been given up.
  void withdraw(Transit& transit) noexcept;

  // On return MPI does not touch a collective's memory any more: it has ended, since every rank came, or MPI
  // has been given up. It cannot be withdrawn.
  void outlast(Posted& collective) noexcept;

  // ---- Failures
  bool failed() const { return failure_ != nullptr; }
  // Looks after others' withdrawals and failures.
  void look();
  // The same, now and then, and throws the first failure that was announced.
  void check_failure();
  void announce(Exit code, const std::string& text);

  // ---- The end
  // After a clean run.
  void close();
  // After a failed one, when no message of this rank is under way: nobody need wait for it.
  void leave();

  // Text whose message has not ended, kept for as long as the process lives.
  struct Kept {
    std::string text;
    Posted posted;
  };
  std::list<Kept> kept;

 private:
  struct Peer {
    bool withdraws = false;  // it has said so
    bool told = false;       // this rank has said that it withdraws
    bool promised = false;   // this rank has said that it is gone
    bool gone = false;       // it has said so
  };
  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }
  void say(int rank, int tag);
  bool hear(int* rank, int tag);
  bool memory_is_safe(const Transit& transit);
  void begin(Transit& transit, Posted posted);
  void poll();
  std::vector<Transit*> receives_from(int rank) const;

  std::vector<Peer> peers_;
  std::vector<Transit*> active_;
  Glance glance_;
  int64_t polls_ = 0;
  int unchecked_ = 0;  // calls of check_failure() since it last looked at the clock
  Clock::time_point looked_{}, moment_ends_{};
  // Short enough to leave at once, without a receive that waits for it.
  std::array<char, 1024> announced_{};
  Posted heard_;
  std::list<Posted> said_;
  std::unique_ptr<Error> failure_;
};

}  // namespace zp::transport
