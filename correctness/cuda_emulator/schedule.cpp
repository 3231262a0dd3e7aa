// Turns, host waits and the watch over host threads that wait outside CUDA. See schedule.hpp.
#include "correctness/cuda_emulator/schedule.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "correctness/cuda_emulator/arena.hpp"
#include "correctness/cuda_emulator/fault.hpp"

namespace zp::emulated {

// Every domain there ever was, and the thread that takes over for host threads which wait outside CUDA calls
// (in MPI, say): without it, a rank whose peers wait for its stream would never let that stream run.
class Watch {
 public:
  static void add(Domain* domain);
  static void start();
  static void say_where_all_are_blocked();
  static std::atomic<std::uint64_t> takeovers;

 private:
  static void* run(void*);
  static void look();
  static void look_at(Domain& domain, std::uint32_t& seen, int& rounds);
};

namespace {

constexpr int kRoundUs = 2000;
constexpr int kRoundsAsleep = 3;   // a host thread that sleeps so long outside CUDA is taken for waiting
constexpr int kRoundsAwake = 150;  // one that runs, only after so long: it may wait without sleeping

struct Known {
  Domain* domain;
  std::uint32_t seen;
  int rounds;
};

Spin& known_lock() {
  static constinit Spin lock;
  return lock;
}

// Never destroyed: streams may outlive what is destroyed at the end of main.
std::deque<Known>& known() {
  static constinit std::deque<Known>* list = nullptr;
  if (list == nullptr) list = new std::deque<Known>;
  return *list;
}

// By the system's word; read without the calls that the thread sanitizer watches.
bool sleeps(int thread) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/task/%d/stat", thread);
  const long file = syscall(SYS_openat, AT_FDCWD, path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;  // it has ended
  std::array<char, 256> text{};
  const long length = syscall(SYS_read, file, text.data(), text.size() - 1);
  syscall(SYS_close, file);
  if (length <= 0) return true;
  const char* const end_of_name = std::strrchr(text.data(), ')');
  return end_of_name != nullptr && end_of_name[1] == ' ' && end_of_name[2] != 'R';
}

struct OwnDomain {
  Domain* domain = nullptr;
};

constinit thread_local OwnDomain own;
constinit thread_local bool within_host_function = false;

}  // namespace

bool& in_host_function() { return within_host_function; }

constinit std::atomic<std::uint64_t> Watch::takeovers{0};

std::uint64_t taken_over() { return Watch::takeovers.load(std::memory_order_relaxed); }

void Watch::add(Domain* domain) {
  const Held held(known_lock());
  known().push_back({domain, 0, 0});
}

void Watch::start() {
  static constinit std::atomic<bool> started{false};
  if (started.exchange(true)) return;
  pthread_t thread{};
  if (pthread_create(&thread, nullptr, &Watch::run, nullptr) != 0) fault("no thread for the watch");
  pthread_detach(thread);
}

void* Watch::run(void*) {
  while (true) {
    sleep_us(kRoundUs);
    look();
  }
}

void Watch::look() {
  size_t count = 0;
  {
    const Held held(known_lock());
    count = known().size();
  }
  for (size_t i = 0; i < count; ++i) {
    Known* entry = nullptr;
    {
      const Held held(known_lock());
      entry = &known()[i];  // a deque that only grows moves nothing
    }
    look_at(*entry->domain, entry->seen, entry->rounds);
  }
}

void Watch::look_at(Domain& domain, std::uint32_t& seen, int& rounds) {
  const std::uint32_t touched = domain.touched_.load(std::memory_order_relaxed);
  if (touched != seen || domain.waits_.load() > 0 || !domain.has_work()) {
    seen = touched;
    rounds = 0;
    return;
  }
  ++rounds;
  if (rounds < kRoundsAsleep || (rounds < kRoundsAwake && !sleeps(domain.thread_))) return;
  while (domain.touched_.load(std::memory_order_relaxed) == seen && domain.step()) {
    takeovers.fetch_add(1, std::memory_order_relaxed);
  }
}

void Watch::say_where_all_are_blocked() {
  const Held held(known_lock());
  for (const Known& entry : known()) entry.domain->say_where_it_is_blocked();
}

Domain& Domain::of_this_thread() {
  if (own.domain == nullptr) {
    own.domain = new Domain(static_cast<int>(syscall(SYS_gettid)));
    Watch::add(own.domain);
  }
  return *own.domain;
}

CUstream_st* Domain::add(int device, Stream::Kind kind) {
  if (settings().schedule == Schedule::serial) Watch::start();
  turns_.lock();
  // Seeds depend on what this thread did, never on what others did meanwhile.
  const std::uint64_t seed = settings().seed * 1000003U + static_cast<std::uint64_t>(device) * 7919U;
  if (streams_added_ == 0) random_ = Random(seed);
  ++streams_added_;
  auto* const stream = new CUstream_st(device, kind, *this, seed + 31 * streams_added_);
  for (auto at = streams_.begin(); at != streams_.end();) {
    at = (*at)->ended() ? streams_.erase(at) : at + 1;
  }
  streams_.push_back(Shared<Stream>::of(stream));
  turns_.unlock();
  return stream;
}

void Domain::begin_anew() {
  turns_.lock();
  streams_added_ = 0;
  turns_.unlock();
}

bool Domain::has_work() {
  if (!turns_.try_lock()) return false;
  bool work = false;
  for (const Shared<Stream>& stream : streams_) work = work || !stream->idle();
  turns_.unlock();
  return work;
}

// The ready stream of highest priority. Now and then a stream's priority is drawn anew.
bool Domain::grant_one() {
  Stream* best = nullptr;
  for (const Shared<Stream>& stream : streams_) {
    if (!stream->can_take_turn()) continue;
    if (best == nullptr || stream->priority > best->priority) best = stream.get();
  }
  if (best == nullptr) return false;
  best->take_turn();
  if (random_.one_in(8)) best->priority = random_.next();
  return true;
}

bool Domain::step() {
  if (!turns_.try_lock()) return false;
  const bool granted = grant_one();
  turns_.unlock();
  return granted;
}

void Domain::sometimes_step() {
  turns_.lock();
  while (random_.one_in(3) && grant_one()) {
  }
  turns_.unlock();
}

void Domain::say_where_it_is_blocked() {
  if (!turns_.try_lock()) return;
  for (const Shared<Stream>& stream : streams_) {
    const char* const name = stream->blocked_at();
    if (name == nullptr) continue;
    note("  stream %d of device %d is blocked at %s", stream->number(), stream->device(), name);
  }
  turns_.unlock();
}

void wait_for(Awaited& awaited, Domain& domain, const char* call) {
  const bool serial = settings().schedule == Schedule::serial;
  const Domain::Waiting waiting(domain);
  double since = now_s();
  std::uint64_t moved = finished_operations();
  while (!awaited.reached()) {
    if (serial && domain.step()) continue;
    awaited.sleep(serial ? 100 : 20000);
    if (finished_operations() != moved) {
      moved = finished_operations();
      since = now_s();
    } else if (now_s() - since > settings().deadline_s) {
      note("deadlock: nothing moved for %d s in %s", settings().deadline_s, call);
      Watch::say_where_all_are_blocked();
      fault("deadlock in %s", call);
    }
  }
  domain.touch();
  close_arena();
}

}  // namespace zp::emulated
