// A stream: a thread that takes operations from a queue in order. A ticket is one recording of an event.
// Destroying a stream does not wait, and neither orders anything for the thread sanitizer but what CUDA
// orders.
#pragma once

#include <cstdint>
#include <deque>

#include "correctness/cuda_emulator/edges.hpp"
#include "correctness/cuda_emulator/lock.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::emulated {

// Something that a stream does. Operations that may have to wait say so in ready(), which any thread may ask.
class Operation {
 public:
  explicit Operation(const char* name) : name_(name) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  virtual bool ready() { return true; }
  virtual void await() {}   // sleeps until ready() may have changed, some milliseconds at most
  virtual bool step() = 0;  // a part of it; true where it was the last
  virtual bool touches_memory() const { return true; }  // of devices
  const char* name() const { return name_; }

 private:
  const char* name_;  // of a lifetime at least as long
};

class Ticket final : public Counted {
 public:
  bool done() const { return done_.load(std::memory_order_acquire) != 0; }
  double time_s() const { return time_s_; }
  void punch();  // on the stream's thread
  void sleep(int most_us) { sleep_while(done_, 0, most_us); }
  void acquire() { acquire_edge(this); }

 private:
  Word done_{0};
  double time_s_ = 0;
};

class Domain;

class Stream : public Counted {
 public:
  enum class Kind { blocking, non_blocking };
  Stream(int device, Kind kind, Domain& domain, std::uint64_t seed);

  int device() const { return device_; }
  bool blocking() const { return kind_ == Kind::blocking; }
  int number() const { return number_; }
  Domain& domain() const { return domain_; }

  void push(Operation* operation);  // takes it over
  void close();                     // the thread ends behind what was pushed
  std::uint32_t pushed() const { return pushed_.load(std::memory_order_acquire); }
  bool finished(std::uint32_t count) const;  // at least the first `count` operations
  bool idle() const { return finished(pushed()); }
  void sleep_until_more_is_finished(int most_us);
  void acquire() { acquire_edge(&order_); }  // all that is finished happened before what follows here

  // Serial schedule, under the domain's lock: hands the turn to this stream's thread and waits for it to come
  // back. False where nothing was pushed, or what comes first must wait.
  bool take_turn();
  bool can_take_turn();
  std::uint64_t priority = 0;

  // The first operation that is not finished; null where there is none. Its name stays valid under `held`.
  const char* blocked_at();

  Random random;

  bool ended() const { return ended_.load(std::memory_order_acquire); }

 protected:
  ~Stream() override = default;

 private:
  void work();
  void work_in_turns();
  void work_freely();
  bool advance(Operation& first);
  Operation* first();

  const int device_;
  const Kind kind_;
  const int number_;
  const bool serial_;  // as the settings said when it was created
  Domain& domain_;
  Spin held_;
  std::deque<Operation*> queue_;
  Word pushed_{0};
  Word finished_{0};
  Word turn_{0};
  std::atomic<int> host_waits_{0};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> ended_{false};
  bool closed_ = false;  // of the thread alone
  char order_ = 0;
};

// Streams that have a thread, and operations that finished, over all streams.
int living_streams();
std::uint64_t finished_operations();

}  // namespace zp::emulated

// What cudaStream_t points to.
struct CUstream_st final : zp::emulated::Stream {
  using Stream::Stream;
};
