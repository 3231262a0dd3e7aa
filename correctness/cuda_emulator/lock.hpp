// Locks, sleeping and sharing that the thread sanitizer does not see: spinning on atomics and raw futex
// calls, since it watches pthread's locks even in code compiled without it.
#pragma once

#include <atomic>
#include <cstdint>

namespace zp::emulated {

class Spin {
 public:
  void lock();
  bool try_lock() { return !flag_.test_and_set(std::memory_order_acquire); }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

class Held {
 public:
  explicit Held(Spin& spin) : spin_(spin) { spin_.lock(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { spin_.unlock(); }

 private:
  Spin& spin_;
};

using Word = std::atomic<std::uint32_t>;

// Sleeps while `word` holds `seen`, at most `most_us`; may return earlier.
void sleep_while(Word& word, std::uint32_t seen, int most_us);
void wake_all(Word& word);
void sleep_us(int us);
double now_s();

// Shared by counting. std::shared_ptr's counter is one function for all types, so that a copy compiled with
// the sanitizer may be linked here, and would order what CUDA does not.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  void retain() { users_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~Counted() = default;

 private:
  std::atomic<int> users_{1};
};

template <class T>
class Shared {
 public:
  Shared() = default;
  static Shared adopt(T* object) { return Shared(object); }  // takes over the first use
  static Shared of(T* object) {
    if (object != nullptr) object->retain();
    return Shared(object);
  }
  Shared(const Shared& other) : Shared(of(other.object_)) {}
  Shared(Shared&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  Shared& operator=(Shared other) noexcept {
    T* const mine = object_;
    object_ = other.object_;
    other.object_ = mine;
    return *this;
  }
  ~Shared() {
    if (object_ != nullptr) object_->release();
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Shared(T* object) : object_(object) {}
  T* object_ = nullptr;
};

// Steele's splitmix64: every seed gives a sequence of its own.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  std::uint64_t below(std::uint64_t limit) {  // without a division, which is slow
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * limit) >> 64U);
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace zp::emulated
