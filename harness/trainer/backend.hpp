// What ranks compute with. A backend gives each rank an engine: device, kernels, and where memory is not the
// host's, streams and a link for it. One backend is the host's; the others are shared libraries beside the
// executable, which are opened when they are asked for and never stand in for each other.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/device/device_limits.hpp"
#include "harness/device/device_memory.hpp"
#include "harness/transport/carrier.hpp"
#include "harness/transport/transport.hpp"
#include "kernels/kernels.hpp"

namespace zp {

// What kernels will be asked for at most.
struct KernelNeeds {
  kernels::HostOptions host;
  int64_t attention_rows = 0;  // batch·heads·sequence
  // Of matrix products by a vendor (kernels/cuda/vendor_table.hpp).
  Math math = Math::ordered;
  Type operands = Type::f32;             // the parameters'
  int64_t largest_a = 0, largest_b = 0;  // elements of operands that are no parameters
  int64_t alignment = 1;                 // elements that every matrix begins at a multiple of
};

// Of one rank, used by its thread. Everything that it made must end before it.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;
  virtual Device& device() = 0;
  // Kernels of forward, backward and optimizer. Memory of their own comes from `device`, a decorator of
  // device().
  virtual std::unique_ptr<kernels::Table> make_kernels(Device& device, const KernelNeeds& needs) = 0;
  // The transport's stream, its kernels, and a link on it for device(): over one for the host's memory
  // (staged), or over one that reaches the device's (gpu_aware). All null where transports use the same
  // kernels and memory as everybody.
  virtual Stream* transport_stream() = 0;
  virtual std::unique_ptr<kernels::Table> make_transport_kernels(Device& device) = 0;
  virtual std::unique_ptr<Link> make_link(Link& inner, Route route) = 0;
  // Messages by the device's own library, on the transport's stream, between the ranks of `control`;
  // collective. Throws (unavailable) where there is no such library, with the words of the loader.
  virtual std::unique_ptr<Carrier> make_carrier(Control& control, double timeout_s) = 0;
  // Returns when kernels that were run are over, and what the transport put on its stream: for clocks.
  virtual void finish() = 0;
  // What the device says of its own memory; none of the host's. Its peak begins anew with begin_peak().
  virtual std::optional<DeviceMemory> memory() = 0;
  virtual void begin_peak() = 0;
  // How a vendor's library computes each product that it was asked for, a line each.
  virtual std::vector<std::string> choices() const = 0;
};

// One of the devices that a backend spreads ranks over.
struct DeviceFacts {
  std::string name, compute_capability;
  std::string pci;   // domain:bus:device.function
  std::string uuid;  // of this device wherever it is seen
  Bytes memory;
  DeviceLimits limits = {};
  std::vector<PeerAccess> peers = {};  // from it to every device, by number
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // For people: what the ranks of this host compute with; empty for the host's.
  virtual std::string description() const = 0;
  // Rank r of a host takes device r mod their number. None where ranks compute on the host.
  virtual std::vector<DeviceFacts> devices() const = 0;
  // Of the libraries and drivers that stand between; empty for the host's.
  virtual std::string versions() const = 0;
  // What the log of the library that carries messages between devices is to hold. Before anything else is
  // asked of it, and before there are other threads.
  virtual void ask_carrier(CarrierLog log) const = 0;
  // Of that library. Throws (unavailable) as Engine::make_carrier does.
  virtual std::string carrier_version() const = 0;
  // What it has said of how it works here, and which parts of it were asked. Empty: nothing that was heard,
  // nobody.
  virtual std::vector<std::string> carrier_words() const = 0;
  virtual std::string carrier_log() const = 0;
  // `local_rank` counts the ranks of this host. Throws (unavailable) where there is no such device, with the
  // words of its library. Where the host waits for a device that ends nothing in `timeout_s`, it throws
  // (timeout).
  virtual std::unique_ptr<Engine> make_engine(int local_rank, Fill fill, double timeout_s) const = 0;
  // Bytes of Category::workspace that both tables of an engine acquire.
  virtual Bytes workspace(const KernelNeeds& needs) const = 0;
  // Which library, of which version, computes vendor arithmetic on which devices: what fixes its bits. Throws
  // (unavailable) where there is none.
  virtual std::string vendor() const = 0;
};

const Backend& cpu_backend();
// "cpu", "cuda" or "emulated". Throws (unavailable) where its library or its device is not here.
const Backend& backend_named(std::string_view name);

}  // namespace zp
