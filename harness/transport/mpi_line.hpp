// One MPI communicator and the messages on it, free of mpi.h. A failed call throws Error (transport).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "harness/base/type.hpp"

namespace zp::transport {

// One message that MPI was told to send or to receive, or one collective. Its end does nothing: until the
// message has ended, MPI may touch its memory whenever this process calls MPI.
class Posted {
 public:
  Posted();
  Posted(Posted&& other) noexcept;
  Posted& operator=(Posted&& other) noexcept;
  ~Posted();

  enum class State { active, complete, cancelled };
  struct Outcome {
    State state = State::active;
    size_t bytes = 0;  // received
  };
  Outcome test();
  // Tests several with one look at the network; outcome i is of posted[i].
  static std::vector<Outcome> test_each(const std::vector<Posted*>& posted);
  // Ends a receive that has not met its message; test() tells which came first.
  void cancel();

 private:
  friend class Line;
  struct Request;
  std::unique_ptr<Request> request_;
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
  static Posted collective();

  struct Communicator;
  std::unique_ptr<Communicator> communicator_;
  int rank_ = 0, world_ = 1;
};

}  // namespace zp::transport
