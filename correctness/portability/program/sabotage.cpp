// Preloaded into a program that knows nothing of it, this changes how one of its threads computes:
// ZP_SABOTAGE=CHANGE:THREAD, where CHANGE is flush, zeros or upward and THREAD is 0 for the first thread, or
// k for the k-th that the program starts. It does so as a foreign library would: when it is loaded, or in a
// thread before its work begins.
#include <dlfcn.h>
#include <pthread.h>
#include <xmmintrin.h>

#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <cstring>

namespace {

constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;

using Work = void* (*)(void*);
struct Started {
  Work work;
  void* argument;
};

std::atomic<int> started{0};

const char* asked() {
  const char* text = std::getenv("ZP_SABOTAGE");
  return text == nullptr ? "" : text;
}

bool wanted(int thread) {
  const char* colon = std::strchr(asked(), ':');
  return colon != nullptr && std::atoi(colon + 1) == thread;
}

void change_this_thread() {
  if (std::strncmp(asked(), "flush", 5) == 0) _mm_setcsr(_mm_getcsr() | kFlushToZero);
  if (std::strncmp(asked(), "zeros", 5) == 0) _mm_setcsr(_mm_getcsr() | kDenormalsAreZero);
  if (std::strncmp(asked(), "upward", 6) == 0) std::fesetround(FE_UPWARD);
}

__attribute__((constructor)) void loaded() {
  if (wanted(0)) change_this_thread();
}

void* work_otherwise(void* raw) {
  const Started own = *static_cast<Started*>(raw);
  delete static_cast<Started*>(raw);
  change_this_thread();
  return own.work(own.argument);
}

}  // namespace

// Found before the C library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, Work work,
                              void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, Work, void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (!wanted(++started)) return create(thread, attributes, work, argument);
  return create(thread, attributes, work_otherwise, new Started{work, argument});
}
