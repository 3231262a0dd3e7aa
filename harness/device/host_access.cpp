// Bytes of any memory, seen and written by the host.
#include "harness/device/host_access.hpp"

#include <cstring>

namespace zp {

HostBytes::HostBytes(const View& view) {
  if (view.empty()) return;
  Storage& storage = *view.storage();
  storage.settle_writers();
  const auto length = static_cast<size_t>(view.bytes().n);
  if (storage.far == nullptr) {
    bytes_ = {static_cast<const std::byte*>(view.raw()), length};
    return;
  }
  copy_.resize(length);
  storage.far->to_host(view, copy_.data());
  bytes_ = copy_;
}

void write_from_host(const View& to, std::span<const std::byte> from) {
  require(static_cast<int64_t>(from.size()) == to.bytes().n, "a view is written whole");
  if (to.empty()) return;
  Storage& storage = *to.storage();
  storage.settle();
  if (storage.far == nullptr) {
    std::memcpy(to.raw(), from.data(), from.size());
  } else {
    storage.far->to_device(from.data(), to);
  }
}

}  // namespace zp
