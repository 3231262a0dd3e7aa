// A few threads that share one loop at a time. The caller takes part; idle threads sleep. Who runs which
// index never matters: the body writes outputs that belong to its index alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace zp::kernels {

class Pool {
 public:
  // `threads` in all, the caller included. Each checks its float environment first; the constructor throws
  // what they find.
  explicit Pool(int threads);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  int threads() const { return threads_; }
  // Called by the caller's thread between the indices that it takes; may itself run loops, which the caller's
  // thread then runs alone. Empty: nothing is called.
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }

  // Runs body(index) or body(index, worker) once for every index in [0, count), worker in [0, threads())
  // naming the thread (its part of the workspace). Returns when all are done. After an exception no further
  // index is started and the first one caught is rethrown. Not reentrant but from the poll.
  template <class Body>
  void parallel_for(int64_t count, const Body& body) {
    run(
        count,
        [](const void* context, int64_t index, int worker) {
          const Body& call = *static_cast<const Body*>(context);
          if constexpr (std::is_invocable_v<const Body&, int64_t, int>) {
            call(index, worker);
          } else {
            (void)worker;
            call(index);
          }
        },
        &body);
  }

 private:
  using Step = void (*)(const void* context, int64_t index, int worker);
  void run(int64_t count, Step step, const void* context);

  struct Shared;
  void run_alone(int64_t count, Step step, const void* context);
  void run_shared(int64_t count, Step step, const void* context);
  void poll();

  int threads_;
  std::function<void()> poll_;
  bool polling_ = false;  // the caller's thread is inside the poll
  std::unique_ptr<Shared> shared_;
};

}  // namespace zp::kernels
