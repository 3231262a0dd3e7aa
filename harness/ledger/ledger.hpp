// What one rank did, written down as it happens. Metered decorators wrap device, link, transport and kernel
// table, which do not know it; the step loop marks the points. Used by that rank's thread only.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "harness/device/device.hpp"
#include "harness/device/device_memory.hpp"
#include "harness/layout/uses.hpp"
#include "harness/ledger/evidence.hpp"
#include "harness/transport/carrier.hpp"
#include "harness/transport/transport.hpp"
#include "kernels/kernels.hpp"

namespace zp {

class Ledger {
 public:
  // Everything until end_step() belongs to this step.
  void begin_step(int step);
  StepEvidence end_step();

  // Buffers take whole grains of a device's memory: counted beside their bytes from here on.
  void count_grains(Bytes grain) { grain_ = grain; }
  Bytes taken() const { return taken_; }
  Bytes taken_most() const { return taken_most_; }  // of the step

  void acquire(Category category, Bytes bytes);
  void give_back(Category category, Bytes bytes);
  void send(Purpose purpose, int peer, Bytes bytes);
  void ask(Operation operation, const Label& label, Type type, Elements whole);
  void work(std::string_view kernel, Elements elements);

  // Memory as it stands now. after_init is remembered and reported with every step.
  void mark(Point point);
  // One unit's use begins; the one before it, if any, is over. Of all backward uses of the step the largest
  // total counts as Point::backward_peak.
  void enter_use(int micro_step, const Use& use);
  // The last use of a micro-step is over. Until the next one begins it is the rest of the step.
  void leave_uses();

  // The step under way: for what only the step loop knows (hashes, losses, times).
  StepEvidence& now() { return now_; }
  // The last entries of the collective log, oldest first, over the whole run.
  const std::vector<LogEntry>& recent_log() const { return recent_; }

 private:
  struct Snapshot {
    std::array<int64_t, kCategories.size()> bytes{};
    int64_t total = 0;
  };
  // A stretch of the step, and each category's largest in it.
  struct Stretch {
    Point point = Point::rest_most;
    int micro_step = 0, unit = -1;  // no unit: the rest of the step
    Snapshot most;
  };
  static HeldMap to_map(const Snapshot& snapshot);
  void hold(Category category, int64_t bytes);  // negative: given back
  Bytes grains(Bytes bytes) const { return grain_.n == 0 ? Bytes{} : whole_grains(bytes, grain_); }
  void begin(const Stretch& stretch);
  void end_stretch();

  StepEvidence now_;
  Snapshot held_, step_peak_, backward_peak_;
  Bytes grain_, taken_, taken_most_;
  HeldMap after_init_;
  Stretch stretch_;
  bool backward_seen_ = false;
  int64_t sequence_ = 0;
  std::vector<LogEntry> recent_;
};

// Decorators. `inner` and `ledger` must outlive them.
std::unique_ptr<Device> make_metered_device(Device& inner, Ledger& ledger);
std::unique_ptr<Link> make_metered_link(Link& inner, Ledger& ledger);
std::unique_ptr<Carrier> make_metered_carrier(Carrier& inner, Ledger& ledger);
std::unique_ptr<Transport> make_metered_transport(Transport& inner, Ledger& ledger);
std::unique_ptr<kernels::Table> make_metered_table(kernels::Table& inner, Ledger& ledger);

}  // namespace zp
