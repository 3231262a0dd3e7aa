// A device whose streams run on the host, in the thread that waits for them, and as late as order allows:
// what nobody waits for has not happened yet. A missing wait shows as a value that is read too early, every
// time. With a seed some work runs earlier, by chance. Memory is "far": the host is refused to touch it.
#pragma once

#include <cstdint>
#include <string>

#include "harness/trainer/backend.hpp"

namespace zp {

// Waits that are left out.
enum class LeftOut {
  nothing,
  compute_after_transport,
  transport_after_compute,
  host_waits,
  stream_before_messages  // by a link, before it sends, or receives, what lies on the device
};

struct LateOptions {
  uint64_t seed = 0;  // 0: nothing runs early
  LeftOut left_out = LeftOut::nothing;
};

class LateBackend final : public Backend {
 public:
  explicit LateBackend(const LateOptions& options) : options_(options) {}
  std::string_view name() const override { return "late"; }
  std::string description() const override { return "streams of this thread"; }
  std::vector<DeviceFacts> devices() const override { return {}; }
  std::string versions() const override { return ""; }
  void ask_carrier(CarrierLog) const override {}
  std::string carrier_version() const override { return ""; }
  std::vector<std::string> carrier_words() const override { return {}; }
  std::string carrier_log() const override { return ""; }
  std::unique_ptr<Engine> make_engine(int local_rank, Fill fill, double) const override;
  Bytes workspace(const KernelNeeds& needs) const override;
  std::string vendor() const override { fail(Exit::unavailable, "kernels are the host's"); }

 private:
  LateOptions options_;
};

}  // namespace zp
