// Spinning, futex calls and the clock. See lock.hpp.
#include "correctness/cuda_emulator/lock.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace zp::emulated {

namespace {

// ::syscall is watched by no sanitizer, and std::atomic<uint32_t> is one word that the kernel can compare.
long futex(Word& word, int operation, std::uint32_t value, const timespec* most) {
  return syscall(SYS_futex, &word, operation, value, most, nullptr, 0);
}

timespec duration(int us) { return {us / 1000000, (us % 1000000) * 1000L}; }

}  // namespace

void Spin::lock() {
  while (!try_lock()) sched_yield();
}

void sleep_while(Word& word, std::uint32_t seen, int most_us) {
  const timespec most = duration(most_us);
  futex(word, FUTEX_WAIT_PRIVATE, seen, &most);
}

void wake_all(Word& word) { futex(word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr); }

void sleep_us(int us) {
  const timespec time = duration(us);
  syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, nullptr);
}

double now_s() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace zp::emulated
