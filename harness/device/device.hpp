// Memory on one device, with its category and the transfers and kernels that still use it. A buffer knows who
// is writing and who is reading it, so an access waits by itself, on the host or on a stream: order by
// construction, not by discipline.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/base/type.hpp"
#include "harness/base/vocabulary.hpp"

namespace zp {

class Device;
class Stream;
class View;

// Work in flight: a transfer, or what was put on a stream. wait() returns when it is complete and may be
// called again; it throws Error as its transport or device says (timeout, transport, cuda).
class Pending {
 public:
  Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  virtual ~Pending() = default;
  virtual void wait() = 0;
  // The stream that it was put on, so that others can run after it. Null: only the host can wait for it, and
  // it may then leave work on a stream behind, registered with the same buffers.
  virtual const Stream* stream() const { return nullptr; }
};

// Everything that was put on a stream before a moment.
class Mark : public Pending {
 public:
  virtual bool done() = 0;  // never blocks
};

// Told while the host waits for a device, so that it does not wait for what will never be over.
class Lookout {
 public:
  Lookout() = default;
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;
  virtual ~Lookout() = default;
  virtual void begin() = 0;  // of a wait
  virtual void look() = 0;   // again and again until it is over; rests in between
};

// Work put on a stream runs in order, beside the host and beside other streams. Used by one thread.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;
  virtual std::shared_ptr<Mark> mark() = 0;
  // What is put on it from now on runs after `pending`, which is work of a stream.
  virtual void run_after(const Pending& pending) = 0;
  // to = from, of the same length and type, both of this device. Waits for nobody, registers nothing; and so
  // do copies between this device's memory and pinned memory of the host (FarMemory::pin).
  virtual void copy(const View& from, const View& to) = 0;
  virtual void to_pinned(std::span<const std::byte> from, std::byte* to) = 0;
  virtual void from_pinned(const std::byte* from, std::span<std::byte> to) = 0;
};

// Memory that the host cannot use where it lies. Copies to and from the host are complete on return, wait for
// nobody and register nothing: callers have settled the views' buffers (harness/device/host_access.hpp).
class FarMemory {
 public:
  FarMemory() = default;
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;
  virtual ~FarMemory() = default;
  virtual void to_host(const View& from, std::byte* to) = 0;
  virtual void to_device(const std::byte* from, const View& to) = 0;
  // Host memory that streams of this device copy to and from beside the host.
  virtual std::byte* pin(Bytes bytes) = 0;
  virtual void unpin(std::byte* memory) noexcept = 0;
  // Memory that is given back from now on (Device::release) is used anew after `work` of a stream.
  virtual void give_back_after(Pending& work) = 0;
  // What readies the memory that was allocated last, on a stream; null: it is ready.
  virtual std::shared_ptr<Pending> readying() = 0;
};

using Pendings = std::vector<std::shared_ptr<Pending>>;

// State of a buffer, at a fixed address as long as the buffer lives.
struct Storage {
  Device* owner = nullptr;
  Category category = Category::params;
  Type type = Type::f32;
  Elements length;
  void* data = nullptr;
  FarMemory* far = nullptr;  // null: host memory
  Pendings writers;          // more than one only where they write apart
  Pendings readers;

  Bytes bytes() const { return length * size_of(type); }
  // On return the writers are complete; with a stream, what is put on it from now on runs after them.
  void settle_writers(Stream* stream = nullptr);
  void settle(Stream* stream = nullptr);  // writers and readers
  // Registers work of a stream that was settled for it before.
  void read_by(const std::shared_ptr<Pending>& work);
  void written_by(const std::shared_ptr<Pending>& work);
  // The same beside writers that write apart.
  void also_written_by(const std::shared_ptr<Pending>& work);
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

  // Pointers to the first element, of host memory only: for the host's kernels and what computes beside them.
  // read() waits for whoever writes the buffer, write() also for those that read it. T must be the buffer's
  // type.
  template <class T>
  const T* read() const {
    return static_cast<const T*>(read_bytes(type_of<T>));
  }
  template <class T>
  T* write() const {
    return static_cast<T*>(write_bytes(type_of<T>));
  }
  // The same without a type and without waiting, of any memory: for transports and streams, which register
  // themselves as writer or reader.
  void* raw() const;

 private:
  const void* read_bytes(Type type) const;
  void* write_bytes(Type type) const;

  Storage* storage_ = nullptr;
  Range range_;
};

// to = from, of the same length and type. Put on the stream, or done by the host where that is null and the
// memory is the host's. Waits for nobody, registers nothing.
void copy(const View& from, const View& to, Stream* stream);

// Owns memory of one device; gives it back when destroyed: work of streams that uses it comes first, in their
// order, and the host waits for all other.
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
// a decorator which overrides them sees every byte. What is allocated is ready, or far_memory() says when.
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
  // How the host gets at this memory; null where it is the host's.
  virtual FarMemory* far_memory() = 0;
};

enum class Fill { zero, nan };

// Host memory, for one thread. `fill` is what fresh memory holds; with Fill::nan memory is also poisoned
// before it is given back. Without, it is kept until the device ends, for the next buffer as long.
std::unique_ptr<Device> make_host_device(Fill fill);

}  // namespace zp
