// Workers sleep on a condition variable. A worker that wakes after the loop is over goes back to sleep:
// nobody waits for it, so more threads than cores cost little.
#include "kernels/host/pool.hpp"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/base/float_environment.hpp"

namespace zp::kernels {

struct Pool::Shared {
  std::mutex mutex;
  std::condition_variable wake, idle;
  std::vector<std::thread> threads;
  // Guarded by the mutex.
  uint64_t loops = 0;  // begun so far
  bool open = false;   // workers may join the current loop
  bool stopping = false;
  int busy = 0;  // workers inside the current loop, or still starting
  std::exception_ptr error;
  // The current loop; written while nobody is busy.
  Step step = nullptr;
  const void* context = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next = 0;

  void keep_error() {
    const std::lock_guard lock(mutex);
    if (!error) error = std::current_exception();
    next = count;
  }

  // Takes indices until none is left; `after_each` after every one.
  template <class AfterEach>
  void work(int worker, const AfterEach& after_each) {
    try {
      for (int64_t index = next++; index < count; index = next++) {
        step(context, index, worker);
        after_each();
      }
    } catch (...) {
      keep_error();
    }
  }

  void leave() {
    const std::lock_guard lock(mutex);
    if (--busy == 0) idle.notify_all();
  }

  void live(int worker) {
    try {
      require_float_environment();
    } catch (...) {
      keep_error();
    }
    leave();
    uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stopping || (open && loops != seen); });
        if (stopping) return;
        seen = loops;
        ++busy;
      }
      work(worker, [] {});
      leave();
    }
  }

  void wait_until_idle() {
    std::unique_lock lock(mutex);
    open = false;
    idle.wait(lock, [&] { return busy == 0; });
    if (const std::exception_ptr caught = std::exchange(error, nullptr)) std::rethrow_exception(caught);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

Pool::Pool(int threads) : threads_(threads), shared_(std::make_unique<Shared>()) {
  require(threads >= 1, "a pool has at least one thread");
  require_float_environment();
  try {
    for (int worker = 1; worker < threads; ++worker) {
      {
        const std::lock_guard lock(shared_->mutex);
        ++shared_->busy;
      }
      try {
        shared_->threads.emplace_back([shared = shared_.get(), worker] { shared->live(worker); });
      } catch (const std::system_error& error) {
        shared_->leave();
        fail(Exit::unavailable,
             "cannot start " + std::to_string(threads) + " kernel threads: " + error.what());
      }
    }
    shared_->wait_until_idle();
  } catch (...) {
    shared_->stop();
    throw;
  }
}

Pool::~Pool() { shared_->stop(); }

void Pool::run(int64_t count, Step step, const void* context) {
  if (threads_ == 1 || count <= 1 || polling_) {
    run_alone(count, step, context);
  } else {
    run_shared(count, step, context);
  }
}

void Pool::poll() {
  if (!poll_ || polling_) return;
  polling_ = true;
  try {
    poll_();
  } catch (...) {
    polling_ = false;
    throw;
  }
  polling_ = false;
}

void Pool::run_alone(int64_t count, Step step, const void* context) {
  for (int64_t index = 0; index < count; ++index) {
    step(context, index, 0);
    poll();
  }
}

void Pool::run_shared(int64_t count, Step step, const void* context) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->step = step;
    shared_->context = context;
    shared_->count = count;
    shared_->next = 0;
    shared_->open = true;
    ++shared_->loops;
  }
  shared_->wake.notify_all();
  shared_->work(0, [this] { poll(); });
  shared_->wait_until_idle();
}

}  // namespace zp::kernels
