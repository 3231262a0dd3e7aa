// A device's own words on its memory.
#include "harness/trainer/device_watch.hpp"

namespace zp {

DeviceWatch::DeviceWatch(Engine& engine, Ledger& ledger, Sharing sharing)
    : engine_(engine), ledger_(ledger), sharing_(sharing), first_(engine.memory()) {
  if (first_) ledger.count_grains(first_->grain);
}

void DeviceWatch::after_transport() {
  if (before_transport_) carrier_ = beside_pool(*before_transport_, *engine_.memory());
}

std::optional<DeviceEvidence> DeviceWatch::evidence() const {
  const std::optional<DeviceMemory> now = engine_.memory();
  if (!now) return std::nullopt;
  DeviceEvidence evidence{.grain = now->grain,
                          .used = now->used,
                          .used_most = now->used_most,
                          .taken = ledger_.taken(),
                          .taken_most = ledger_.taken_most(),
                          .reserved_most = now->reserved_most,
                          .pinned = now->pinned};
  if (sharing_ != Sharing::alone) return evidence;
  evidence.context = first_->total - first_->free - first_->reserved;
  evidence.carrier = carrier_;
  evidence.rest = *beside_pool(*first_, *now) - carrier_.value_or(Bytes{});
  return evidence;
}

std::optional<Bytes> DeviceWatch::beside_pool(const DeviceMemory& first, const DeviceMemory& now) const {
  if (sharing_ != Sharing::alone) return std::nullopt;
  return (first.free - now.free) - (now.reserved - first.reserved);
}

}  // namespace zp
