// Messages and collectives as work of a stream: what a library that reaches a device's memory by itself
// carries (NCCL). A call puts its work behind what is there already and returns; nobody waits on the host.
#pragma once

#include <memory>
#include <span>

#include "harness/transport/transport.hpp"

namespace zp {

// What the library writes into its log, which records quote: how ranks are connected, or besides a line for
// every call, which takes time of it.
enum class CarrierLog { connections, calls };

// Of one rank, used by its thread. Calls throw Error (cuda, timeout) where the library refuses them or does
// not come back.
class Carrier {
 public:
  struct Message {
    int peer = 0;
    std::span<std::byte> bytes;  // of the device's memory
  };

  Carrier() = default;
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;
  virtual ~Carrier() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;

  // All of them together: none waits for another. Messages have no tags: from one rank to another they are
  // received in the order in which they were sent, so ranks make calls that fit each other. `purpose` is for
  // the ledger.
  virtual void exchange(Purpose purpose, std::span<const Message> sent,
                        std::span<const Message> received) = 0;

  // The library's own, in place, over equal slices in rank order, in an order of additions of its own: sums
  // of fp32, bf16 or int64. The own slice's sum stands where it lies; the rest is lost.
  virtual void reduce_scatter(const View& data) = 0;
  virtual void all_reduce(const View& data) = 0;
  virtual void all_gather(const View& data) = 0;

  // Throws what the library says of work that it has begun. Never blocks.
  virtual void check() = 0;
  // Ends what is under way, without results. Whoever waits for this device on the host is told `reason`.
  virtual void abort(const Error& reason) noexcept = 0;
  // Watches the host's waits for the device from now on; null: nobody does.
  virtual void set_lookout(Lookout* lookout) = 0;
};

// Collectives over `carrier`, put on options.stream when they are called: by an algorithm's messages and the
// additions of `kernels`, which run on that stream too, or the library's own (native: whole, equal slices, in
// rank order). The same messages, pieces and additions as over a link ([Note: messages and additions of a
// collective]). While the host waits for the device, what is under way has the deadline, the library is asked
// for errors, and failures of other ranks are heard on `control`; any of these ends everything that is under
// way. All must outlive the transport. Throws (unavailable) as make_collectives and make_native do.
std::unique_ptr<Transport> make_carried(Carrier& carrier, Device& device, kernels::Table& kernels,
                                        Control& control, const CollectiveOptions& options);

}  // namespace zp
