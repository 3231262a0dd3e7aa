// Who runs when. Streams belong to the host thread that created them: its domain. In the serial schedule one
// stream of a domain runs one operation at a time, chosen by priorities that a seed draws and redraws (as
// probabilistic concurrency testing does); host threads hand out the turns, in their CUDA calls.
#pragma once

#include "correctness/cuda_emulator/stream.hpp"

namespace zp::emulated {

// The streams of one host thread.
class Domain {
 public:
  explicit Domain(int thread) : thread_(thread) {}
  static Domain& of_this_thread();

  CUstream_st* add(int device, Stream::Kind kind);

  // Serial schedule. Lets one stream run one operation (or part of one); false where none can, or another
  // thread is doing so.
  bool step();
  // After a push: sometimes what was pushed runs at once, sometimes later.
  void sometimes_step();

  class Waiting {  // a host wait under way: it hands out turns itself
   public:
    explicit Waiting(Domain& domain) : domain_(domain) { ++domain_.waits_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting() { --domain_.waits_; }

   private:
    Domain& domain_;
  };

  // Tells the watch that the host thread is at work.
  void touch() { touched_.fetch_add(1, std::memory_order_relaxed); }
  bool has_work();
  void begin_anew();  // as if this thread had created no stream yet
  void say_where_it_is_blocked();

 private:
  friend class Watch;
  bool grant_one();

  const int thread_;  // of the system, to see whether it sleeps
  std::atomic<std::uint32_t> touched_{0};
  std::atomic<int> waits_{0};
  Spin turns_;
  std::deque<Shared<Stream>> streams_;
  std::uint64_t streams_added_ = 0;
  Random random_{0};
};

// What a host thread waits for.
class Awaited {
 public:
  virtual bool reached() = 0;
  virtual void sleep(int most_us) = 0;

 protected:
  ~Awaited() = default;
};

// Waits on a host thread, handing out turns where the schedule is serial. Where nothing moves in any stream
// for longer than the deadline, says who waits for what and ends the process.
void wait_for(Awaited& awaited, Domain& domain, const char* call);

// Serial schedule: operations that ran because a host thread waited outside CUDA.
std::uint64_t taken_over();

// Whether this thread is running a host function for a stream: CUDA calls are not allowed there.
bool& in_host_function();

}  // namespace zp::emulated
