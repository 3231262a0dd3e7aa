// The thread of a stream. See stream.hpp.
#include "correctness/cuda_emulator/stream.hpp"

#include <pthread.h>

#include "correctness/cuda_emulator/arena.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/schedule.hpp"

namespace zp::emulated {

namespace {

constexpr int kNapMs = 20;  // a wait looks again at least so often

constinit std::atomic<int> living{0};
constinit std::atomic<int> created{0};
constinit std::atomic<std::uint64_t> finished_overall{0};

class Close final : public Operation {
 public:
  explicit Close(bool& closed) : Operation("cudaStreamDestroy"), closed_(closed) {}
  bool step() override { return closed_ = true; }
  bool touches_memory() const override { return false; }

 private:
  bool& closed_;
};

bool step(Operation& operation) {
  if (!operation.touches_memory()) return operation.step();
  const DeviceAccess access;
  return operation.step();
}

// Some operations start late, a few of them very late.
void delay(Random& random) {
  const int most = settings().delay_us;
  if (most == 0 || !random.one_in(3)) return;
  const auto limit = static_cast<std::uint64_t>(random.one_in(4) ? 10 * most : most);
  sleep_us(static_cast<int>(random.below(limit)));
}

}  // namespace

int living_streams() { return living.load(std::memory_order_acquire); }
std::uint64_t finished_operations() { return finished_overall.load(std::memory_order_relaxed); }

void Ticket::punch() {
  time_s_ = now_s();
  release_edge(this);
  done_.store(1, std::memory_order_release);
  wake_all(done_);
}

// pthread_create orders what this thread did before for the new thread; the queue's edges would do so too.
Stream::Stream(int device, Kind kind, Domain& domain, std::uint64_t seed)
    : random(seed),
      device_(device),
      kind_(kind),
      number_(created.fetch_add(1) + 1),
      serial_(settings().schedule == Schedule::serial),
      domain_(domain) {
  priority = random.next();
  retain();  // for the thread
  living.fetch_add(1, std::memory_order_relaxed);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const auto body = [](void* stream) -> void* {
    static_cast<Stream*>(stream)->work();
    return nullptr;
  };
  if (pthread_create(&thread, &attributes, body, this) != 0) fault("no thread for another stream");
  pthread_attr_destroy(&attributes);
}

void Stream::push(Operation* operation) {
  release_edge(operation);
  {
    const Held held(held_);
    queue_.push_back(operation);
    pushed_.fetch_add(1, std::memory_order_seq_cst);
  }
  if (asleep_.load(std::memory_order_seq_cst)) wake_all(pushed_);
}

void Stream::close() { push(new Close(closed_)); }

bool Stream::finished(std::uint32_t count) const {
  return static_cast<std::int32_t>(finished_.load(std::memory_order_acquire) - count) >= 0;
}

void Stream::sleep_until_more_is_finished(int most_us) {
  host_waits_.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = finished_.load(std::memory_order_seq_cst);
  if (seen != pushed()) sleep_while(finished_, seen, most_us);
  host_waits_.fetch_sub(1, std::memory_order_relaxed);
}

Operation* Stream::first() {
  const Held held(held_);
  return queue_.empty() ? nullptr : queue_.front();
}

const char* Stream::blocked_at() {
  const Held held(held_);
  return queue_.empty() ? nullptr : queue_.front()->name();
}

// On the stream's thread, and in a serial schedule in its turn.
bool Stream::advance(Operation& operation) {
  acquire_edge(&operation);
  if (!step(operation)) return false;
  {
    const Held held(held_);
    queue_.pop_front();
  }
  delete &operation;
  release_edge(&order_);
  finished_.fetch_add(1, std::memory_order_seq_cst);
  finished_overall.fetch_add(1, std::memory_order_relaxed);
  if (host_waits_.load(std::memory_order_seq_cst) > 0) wake_all(finished_);
  return true;
}

void Stream::work() {
  if (serial_) {
    work_in_turns();
  } else {
    work_freely();
  }
  ended_.store(true, std::memory_order_release);
  living.fetch_sub(1, std::memory_order_release);
  release();
}

void Stream::work_freely() {
  while (!closed_) {
    const std::uint32_t seen = pushed();
    Operation* const operation = first();
    if (operation == nullptr) {
      asleep_.store(true, std::memory_order_seq_cst);
      if (pushed_.load(std::memory_order_seq_cst) == seen) sleep_while(pushed_, seen, kNapMs * 1000);
      asleep_.store(false, std::memory_order_relaxed);
      continue;
    }
    delay(random);
    do {
      while (!operation->ready()) operation->await();
    } while (!advance(*operation));
  }
}

// The turn is 1 while this thread has it. It ends by giving it back, whoever waits for it holds a use of this
// stream.
void Stream::work_in_turns() {
  while (!closed_) {
    if (turn_.load(std::memory_order_acquire) == 0) {
      sleep_while(turn_, 0, kNapMs * 1000);
      continue;
    }
    Operation* const operation = first();
    if (operation != nullptr && operation->ready()) advance(*operation);
    turn_.store(0, std::memory_order_release);
    wake_all(turn_);
  }
}

bool Stream::can_take_turn() {
  if (!serial_) return false;
  const Held held(held_);
  return !queue_.empty() && queue_.front()->ready();
}

bool Stream::take_turn() {
  if (!can_take_turn()) return false;
  turn_.store(1, std::memory_order_release);
  wake_all(turn_);
  const double since = now_s();
  while (turn_.load(std::memory_order_acquire) != 0) {
    sleep_while(turn_, 1, kNapMs * 1000);
    if (now_s() - since > settings().deadline_s)
      fault("stream %d does not come back from %s", number_, blocked_at());
  }
  return true;
}

}  // namespace zp::emulated
