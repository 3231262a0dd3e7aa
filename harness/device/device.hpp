// Memory on one device, with its category and the transfers that still use it. A buffer knows who is writing
// and who is reading it, so an access waits by itself: order by construction, not by discipline.
#pragma once

#include <memory>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/base/type.hpp"
#include "harness/base/vocabulary.hpp"

namespace zp {

// A transfer in flight. wait() returns when it is complete and may be called again; it throws Error as its
// transport says (timeout, transport).
class Pending {
 public:
  Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  virtual ~Pending() = default;
  virtual void wait() = 0;
};

class Device;

// State of a buffer, at a fixed address as long as the buffer lives.
struct Storage {
  Device* owner = nullptr;
  Category category = Category::params;
  Type type = Type::f32;
  Elements length;
  void* data = nullptr;
  std::vector<std::shared_ptr<Pending>> writers;  // more than one only where they write apart
  std::vector<std::shared_ptr<Pending>> readers;

  Bytes bytes() const { return length * size_of(type); }
  void settle_writers();
  void settle();  // writer and readers
};

// A run of elements of one buffer. Copies refer to the same memory; valid while the buffer lives.
class View {
 public:
  View() = default;
  View(Storage* storage, Range range) : storage_(storage), range_(range) {
    require(range.begin.n >= 0 && range.begin <= range.end && range.end <= storage->length,
            "a view lies in its buffer");
  }

  Elements length() const { return range_.length(); }
  Type type() const { return storage_ ? storage_->type : Type::f32; }
  Bytes bytes() const { return length() * size_of(type()); }
  bool empty() const { return range_.empty(); }
  Storage* storage() const { return storage_; }
  Range range() const { return range_; }

  // `part` counts from the view's begin.
  View part(Range part) const {
    require(part.begin.n >= 0 && part.end <= length(), "a part lies in its view");
    return {storage_, {range_.begin + part.begin, range_.begin + part.end}};
  }

  // Host pointers to the first element. read() waits for a transfer that writes the buffer, write() also for
  // those that read it. T must be the buffer's type.
  template <class T>
  const T* read() const {
    return static_cast<const T*>(read_bytes(type_of<T>));
  }
  template <class T>
  T* write() const {
    return static_cast<T*>(write_bytes(type_of<T>));
  }
  // The same without a type and without waiting: for transports, which register themselves as writer or
  // reader.
  void* raw() const;

 private:
  const void* read_bytes(Type type) const;
  void* write_bytes(Type type) const;

  Storage* storage_ = nullptr;
  Range range_;
};

// Owns memory of one device; gives it back when destroyed, after every transfer that uses it.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::unique_ptr<Storage> storage) : storage_(std::move(storage)) {}
  Buffer(Buffer&& other) noexcept = default;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  bool held() const { return storage_ != nullptr; }
  Elements length() const { return storage_ ? storage_->length : Elements{}; }
  View all() const { return storage_ ? View(storage_.get(), {{0}, storage_->length}) : View(); }
  View part(Range range) const { return all().part(range); }
  // Gives the memory back now.
  void drop();

 private:
  std::unique_ptr<Storage> storage_;
};

// Memory of one device. acquire() and the buffer's end go through allocate() and release() of *this*, so that
// a decorator which overrides them sees every byte.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  // Contents are zero (or NaN where the device poisons). 64-byte aligned. Zero length is allowed.
  Buffer acquire(Category category, Type type, Elements length);

  virtual void* allocate(Category category, Bytes bytes) = 0;
  virtual void release(Category category, void* data, Bytes bytes) noexcept = 0;
};

enum class Fill { zero, nan };

// Host memory. `fill` is what fresh memory holds; with Fill::nan memory is also poisoned before it is given
// back.
std::unique_ptr<Device> make_host_device(Fill fill);

}  // namespace zp
