// One MPI communicator and the messages on it, free of mpi.h. A failed call throws Error (transport).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "harness/base/type.hpp"

namespace zp::transport {

// One message that MPI was told to send or to receive, or one collective. Its end does nothing: until the
// message has ended, MPI may touch its memory whenever this process calls MPI.
class Posted {
 public:
  Posted() = default;

  enum class State { active, complete, cancelled };
  struct Outcome {
    State state = State::active;
    size_t bytes = 0;  // received
  };
  Outcome test();
  // Ends a receive that has not met its message; test() tells which came first.
  void cancel();

 private:
  friend class Line;
  friend class Glance;
  // MPI's handle of it, whatever the library makes handles of.
  using Handle = std::array<std::byte, sizeof(void*)>;
  // What MPI reads until a collective has ended.
  struct Lists {
    std::vector<int> counts, offsets;
  };

  Posted(const Handle& handle, std::unique_ptr<Lists> lists)
      : handle_(handle), active_(true), lists_(std::move(lists)) {}

  Handle handle_{};
  bool active_ = false;
  std::unique_ptr<Lists> lists_;  // of a collective
};

// Tests several messages with one look at the network, and keeps its room from one to the next.
class Glance {
 public:
  Glance();
  ~Glance();
  Glance(const Glance&) = delete;
  Glance& operator=(const Glance&) = delete;

  void clear();
  void add(Posted& posted);
  // Outcome i is of the i-th that was added since clear().
  const std::vector<Posted::Outcome>& look();

 private:
  struct Room;
  std::unique_ptr<Room> room_;
};

inline constexpr int kAnyRank = -1;

class Line {
 public:
  // A fresh duplicate of the job's communicator: collective, and throws (timeout) where not every rank comes.
  explicit Line(double timeout_s);
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line();
  // Gives the communicator back. One that may hold messages is kept instead: they must never be matched.
  void close();

  int rank() const { return rank_; }
  int world() const { return world_; }
  int largest_tag() const;

  Posted send(const void* data, size_t bytes, int peer, int tag);
  Posted receive(void* data, size_t bytes, int peer, int tag);

  // Non-blocking collectives in place. Sums are of fp32, int64, or bf16 that are added in fp32 and rounded to
  // nearest even, two at a time; the own part of a reduce-scatter ends up at
  // the beginning. Counts of a gather are bytes.
  Posted reduce_scatter(void* data, std::vector<int> counts, Type type);
  Posted all_reduce(void* data, int count, Type type);
  Posted all_gather(void* data, std::vector<int> counts);

  struct Arrival {
    int rank = 0;
    size_t bytes = 0;
  };
  // A message with this tag, from `peer` or any rank, that has arrived and has not met a receive.
  std::optional<Arrival> arrival(int peer, int tag);

 private:
  struct Communicator;
  std::unique_ptr<Communicator> communicator_;
  int rank_ = 0, world_ = 1;
};

}  // namespace zp::transport
