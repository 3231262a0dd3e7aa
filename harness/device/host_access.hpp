// How code above the kernels looks at a buffer, whichever memory it lies in: through a HostView, and by
// write_from_host(). In the host's own memory neither copies more than it must; elsewhere both go through the
// device. Waits as View::read and View::write do.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "harness/device/device.hpp"

namespace zp {

// A view's bytes on the host: where they lie, or a copy of them. Valid while the buffer lives and nothing
// writes it.
class HostBytes {
 public:
  explicit HostBytes(const View& view);
  HostBytes(HostBytes&&) = default;
  HostBytes& operator=(HostBytes&&) = default;
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> copy_;
  std::span<const std::byte> bytes_;
};

// The same of elements. T must be the buffer's type.
template <class T>
class HostView {
 public:
  explicit HostView(const View& view) : bytes_(view) {
    require(view.empty() || view.type() == type_of<T>, "a view is read as the type it holds");
  }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.bytes().data()); }
  size_t size() const { return bytes_.bytes().size() / sizeof(T); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](size_t i) const { return data()[i]; }

 private:
  HostBytes bytes_;
};

// to = from, byte for byte.
void write_from_host(const View& to, std::span<const std::byte> from);

// T must be the buffer's type.
template <class T>
void write_from_host(const View& to, std::span<const T> from) {
  require(to.empty() || to.type() == type_of<T>, "a view is written as the type it holds");
  write_from_host(to, std::as_bytes(from));
}

}  // namespace zp
