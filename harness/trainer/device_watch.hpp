// What a rank's device says of its own memory over a run: the pool beside the ledger, step by step, and
// beside the pool what the context, the carrier of messages and the rest take. Says nothing of the host's
// memory.
#pragma once

#include <optional>

#include "harness/ledger/ledger.hpp"
#include "harness/trainer/backend.hpp"

namespace zp {

// Whether other ranks use the device too: what is free of it then says nothing of one of them.
enum class Sharing { alone, shared_or_unknown };

class DeviceWatch {
 public:
  // From here on the ledger counts in the device's grains. Before anything is acquired.
  DeviceWatch(Engine& engine, Ledger& ledger, Sharing sharing);

  // Around whatever makes the transport: what its carrier takes beside the pool.
  void before_transport() { before_transport_ = engine_.memory(); }
  void after_transport();

  void begin_step() { engine_.begin_peak(); }
  // Of the step that is over.
  std::optional<DeviceEvidence> evidence() const;

 private:
  // How much less of the device is free than at first, less what the pool holds more.
  std::optional<Bytes> beside_pool(const DeviceMemory& first, const DeviceMemory& now) const;

  Engine& engine_;
  Ledger& ledger_;
  Sharing sharing_;
  std::optional<DeviceMemory> first_, before_transport_;
  std::optional<Bytes> carrier_;
};

}  // namespace zp
