// One NCCL call as what it is made of: bytes to send and to receive, and what is done when all have come.
// Calls of a group advance together, as one operation of a stream.
#pragma once

#include <nccl.h>

#include <memory>
#include <vector>

#include "correctness/cuda_emulator/nccl_numbers.hpp"
#include "correctness/cuda_emulator/nccl_rings.hpp"
#include "correctness/cuda_emulator/stream.hpp"

namespace zp::emulated {

enum class CallKind : std::uint32_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  send,
  receive
};
const char* name_of(CallKind kind);

// What a call is, sent ahead of its bytes: the receiver compares it with its own.
struct Description {
  CallKind kind;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  std::int32_t root;
  std::uint32_t sequence;
  std::uint32_t padding = 0;
  std::uint64_t count;
  bool operator==(const Description&) const = default;
};

struct Call {
  Description what;
  const unsigned char* from = nullptr;
  unsigned char* to = nullptr;
  int peer = -1;  // of send and receive
};

}  // namespace zp::emulated

// What ncclComm_t points to: one rank's end of a communicator.
struct ncclComm final : zp::emulated::Counted {
  ncclComm(int world_, int rank_, int device_) : world(world_), rank(rank_), device(device_) {}
  const int world;
  const int rank;
  const int device;
  std::shared_ptr<zp::emulated::Rings> rings;
  std::atomic<std::uint64_t> issued{0};    // operations
  std::atomic<std::uint64_t> finished{0};  // in the order in which they were issued, whatever their streams
  std::atomic<std::uint32_t> collectives{0};
  std::atomic<bool> aborted{false};

  // One that does not block joins, and puts calls on their stream, while its state is asked for. Of its
  // rank's thread.
  bool blocking = true;
  bool joined = false;
  ncclResult_t error = ncclSuccess;  // that it has said since, and says from then on
  struct Pending {
    cudaStream_t stream;
    std::vector<zp::emulated::Call> calls;
  };
  std::vector<Pending> pending;

  bool idle() const { return finished.load() == issued.load(); }
};

namespace zp::emulated {

class Transfer {
 public:
  enum class Direction { send, receive };
  Transfer(ncclComm& comm, const Description& what, int peer, Direction direction, unsigned char* data,
           std::size_t bytes);
  bool done() const { return done_; }
  bool can_move() const;
  void move();  // as far as it goes
  int peer() const { return peer_; }
  Direction direction() const { return direction_; }

 private:
  void send();
  void receive();
  bool fits(const Description& theirs) const;

  ncclComm* comm_;
  Description what_;
  int peer_;
  Direction direction_;
  Ring* ring_;
  unsigned char* data_;
  std::size_t bytes_;
  std::size_t described_ = 0, moved_ = 0;
  std::uint64_t end_ = 0;  // where in the ring the last byte of a send lies
  Description theirs_{};
  bool done_ = false;
  bool fits_ = true;
};

class Calls final : public Operation {
 public:
  // `ends`: never, unless its communicator is aborted.
  enum class Ends { by_itself, never };
  Calls(Shared<ncclComm> comm, std::vector<Call> calls, Ends ends);
  bool ready() override;
  void await() override;
  bool step() override;

 private:
  void begin();
  bool transferred();
  void begin(const Call& call);
  void add(const Call& call, int peer, Transfer::Direction direction, const unsigned char* data,
           std::size_t bytes);
  bool first_of_its_ring(std::size_t transfer) const;
  void finish(const Call& call, std::size_t index);
  void reduce(const Call& call, const unsigned char* mine, std::size_t index);
  unsigned char* stage(std::size_t index, int peer, std::size_t bytes);

  struct Stage {
    std::size_t call;
    int peer;
    std::unique_ptr<unsigned char[]> bytes;
  };

  Shared<ncclComm> comm_;
  std::vector<Call> calls_;
  std::vector<Transfer> transfers_;
  std::vector<Stage> stages_;
  std::size_t index_ = 0;  // of the call that is begun
  std::uint64_t turn_;
  Ends ends_;
  bool begun_ = false;
  std::atomic<std::uint32_t> heard_{0};
  char text_[96];
};

}  // namespace zp::emulated
