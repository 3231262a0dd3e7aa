// What one rank did, written down as it happens. Metered decorators wrap device, link, transport and kernel
// table, which do not know it; the step loop marks the points. Used by that rank's thread only.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "harness/device/device.hpp"
#include "harness/ledger/evidence.hpp"
#include "harness/transport/transport.hpp"
#include "kernels/kernels.hpp"

namespace zp {

class Ledger {
 public:
  // Everything until end_step() belongs to this step.
  void begin_step(int step);
  StepEvidence end_step();

  void hold(Category category, int64_t bytes);  // negative: given back
  void send(Purpose purpose, int peer, Bytes bytes);
  void ask(Operation operation, const Label& label, Type type, Elements whole);
  void work(std::string_view kernel, Elements elements);

  // Memory as it stands now. after_init is remembered and reported with every step.
  void mark(Point point);
  // Between these two the largest total counts as Point::backward_peak.
  void enter_backward();
  void leave_backward();

  // The step under way: for what only the step loop knows (hashes, losses, times).
  StepEvidence& now() { return now_; }
  // The last entries of the collective log, oldest first, over the whole run.
  const std::vector<LogEntry>& recent_log() const { return recent_; }

 private:
  struct Snapshot {
    std::array<int64_t, kCategories.size()> bytes{};
    int64_t total = 0;
  };
  static HeldMap to_map(const Snapshot& snapshot);

  StepEvidence now_;
  Snapshot held_, step_peak_, backward_peak_;
  HeldMap after_init_;
  bool in_backward_ = false, backward_seen_ = false;
  int64_t sequence_ = 0;
  std::vector<LogEntry> recent_;
};

// Decorators. `inner` and `ledger` must outlive them.
std::unique_ptr<Device> make_metered_device(Device& inner, Ledger& ledger);
std::unique_ptr<Link> make_metered_link(Link& inner, Ledger& ledger);
std::unique_ptr<Transport> make_metered_transport(Transport& inner, Ledger& ledger);
std::unique_ptr<kernels::Table> make_metered_table(kernels::Table& inner, Ledger& ledger);

}  // namespace zp
