// What a GPU's pool says of itself equals what the ledger's buffers take, and a device that takes memory
// beside the ledger, or keeps what was given back, refutes the claim on memory.
#include <gtest/gtest.h>

#include "correctness/mutants/trial.hpp"
#include "harness/trainer/backend.hpp"

extern "C" const zp::Backend* zeroproof_backend();

namespace zp {
namespace {

enum class Wrong { nothing, takes_beside, keeps_what_is_given_back, has_no_grain, takes_the_other_route };

// Beneath the ledger's meter.
class WrongDevice final : public Device {
 public:
  WrongDevice(Device& inner, Wrong wrong) : inner_(inner), wrong_(wrong) {}
  ~WrongDevice() override { inner_.release(Category::bucket, kept_, kept_bytes_); }

  void* allocate(Category category, Bytes bytes) override {
    if (category != Category::bucket || bytes.n == 0) return inner_.allocate(category, bytes);
    if (wrong_ == Wrong::takes_beside) beside_ = inner_.allocate(category, kLittle);
    return inner_.allocate(category, bytes);
  }
  void release(Category category, void* data, Bytes bytes) noexcept override {
    if (category == Category::bucket && data != nullptr) {
      if (wrong_ == Wrong::takes_beside) inner_.release(category, beside_, kLittle);
      if (wrong_ == Wrong::keeps_what_is_given_back && kept_ == nullptr) {
        kept_ = data;
        kept_bytes_ = bytes;
        return;
      }
    }
    inner_.release(category, data, bytes);
  }
  FarMemory* far_memory() override { return inner_.far_memory(); }

 private:
  static constexpr Bytes kLittle{1};
  Device& inner_;
  Wrong wrong_;
  void *beside_ = nullptr, *kept_ = nullptr;
  Bytes kept_bytes_;
};

class WrongEngine final : public Engine {
 public:
  WrongEngine(std::unique_ptr<Engine> inner, Wrong wrong)
      : inner_(std::move(inner)), device_(inner_->device(), wrong), wrong_(wrong) {}
  Device& device() override { return device_; }
  std::unique_ptr<kernels::Table> make_kernels(Device& device, const KernelNeeds& needs) override {
    return inner_->make_kernels(device, needs);
  }
  Stream* transport_stream() override { return inner_->transport_stream(); }
  std::unique_ptr<kernels::Table> make_transport_kernels(Device& device) override {
    return inner_->make_transport_kernels(device);
  }
  std::unique_ptr<Link> make_link(Link& inner, Route route) override {
    return inner_->make_link(inner, wrong_ == Wrong::takes_the_other_route ? Route::staged : route);
  }
  std::unique_ptr<Carrier> make_carrier(Control& control, double timeout_s) override {
    return inner_->make_carrier(control, timeout_s);
  }
  void finish() override { inner_->finish(); }
  std::optional<DeviceMemory> memory() override {
    std::optional<DeviceMemory> memory = inner_->memory();
    if (wrong_ == Wrong::has_no_grain) memory->grain = {};
    return memory;
  }
  void begin_peak() override { inner_->begin_peak(); }
  std::vector<std::string> choices() const override { return inner_->choices(); }

 private:
  std::unique_ptr<Engine> inner_;
  WrongDevice device_;
  Wrong wrong_;
};

class WrongBackend final : public Backend {
 public:
  explicit WrongBackend(Wrong wrong) : wrong_(wrong) {}
  std::string_view name() const override { return inner_.name(); }
  std::string description() const override { return inner_.description(); }
  std::vector<DeviceFacts> devices() const override { return inner_.devices(); }
  std::string versions() const override { return inner_.versions(); }
  void ask_carrier(CarrierLog log) const override { inner_.ask_carrier(log); }
  std::string carrier_version() const override { return inner_.carrier_version(); }
  std::vector<std::string> carrier_words() const override { return inner_.carrier_words(); }
  std::string carrier_log() const override { return inner_.carrier_log(); }
  std::unique_ptr<Engine> make_engine(int local_rank, Fill fill, double timeout_s) const override {
    return std::make_unique<WrongEngine>(inner_.make_engine(local_rank, fill, timeout_s), wrong_);
  }
  Bytes workspace(const KernelNeeds& needs) const override { return inner_.workspace(needs); }
  std::string vendor() const override { return inner_.vendor(); }

 private:
  Wrong wrong_;
  const Backend& inner_ = *zeroproof_backend();
};

mutants::Outcome outcome_of(Wrong wrong, const std::string& stage, Route route = Route::staged) {
  const WrongBackend backend(wrong);
  mutants::Trial trial;
  trial.name = "pool";
  trial.stage = stage;
  trial.model = "synthetic";
  trial.steps = 1;
  trial.micro_batches = trial.world;
  trial.backend = &backend;
  trial.route = route;
  return mutants::run(trial);
}

std::string said(const mutants::Outcome& outcome) {
  return outcome.error ? outcome.error->what() : outcome.evidence(Claim::memory);
}

TEST(PoolClaim, HoldsWhatTheLedgersBuffersTake) {
  const mutants::Outcome outcome = outcome_of(Wrong::nothing, "zero2");
  ASSERT_TRUE(outcome.result && outcome.result->proved()) << said(outcome);
  ASSERT_TRUE(outcome.result->device);
  const DeviceEvidence& device = *outcome.result->device;
  EXPECT_EQ(device.grain, Bytes{512});
  EXPECT_EQ(device.used_most, device.taken_most);
  EXPECT_GT(device.used_most, outcome.result->peak) << "grains are whole";
  EXPECT_GE(device.reserved_most, device.used_most);
  EXPECT_FALSE(device.context) << "two ranks share the device";
}

TEST(PoolClaim, IsNotMeasuredWhereAPoolDoesNotTellWhatABufferTakes) {
  const mutants::Outcome outcome = outcome_of(Wrong::has_no_grain, "zero2");
  ASSERT_TRUE(outcome.result) << said(outcome);
  for (const Verdict& verdict : outcome.result->verdicts) {
    EXPECT_EQ(verdict.finding, verdict.claim == Claim::memory ? Finding::not_measured : Finding::proved);
  }
}

TEST(PoolClaim, RefutesMessagesOnAnotherRouteThanTheNamedOne) {
  const mutants::Outcome outcome = outcome_of(Wrong::takes_the_other_route, "zero2", Route::gpu_aware);
  EXPECT_EQ(outcome.refuted(), std::set<Claim>{Claim::memory}) << said(outcome);
  EXPECT_NE(said(outcome).find("for messages, which are gpu-aware: got "), std::string::npos)
      << said(outcome);
}

TEST(PoolClaim, RefutesMemoryTakenBesideTheLedger) {
  const mutants::Outcome outcome = outcome_of(Wrong::takes_beside, "zero2");
  EXPECT_EQ(outcome.refuted(), std::set<Claim>{Claim::memory}) << said(outcome);
  EXPECT_NE(said(outcome).find("most in the step: the device's pool: got "), std::string::npos)
      << said(outcome);
  EXPECT_NE(said(outcome).find("difference +512 B"), std::string::npos) << said(outcome);
}

TEST(PoolClaim, RefutesMemoryThatIsNeverGivenBack) {
  const mutants::Outcome outcome = outcome_of(Wrong::keeps_what_is_given_back, "zero2");
  EXPECT_EQ(outcome.refuted(), std::set<Claim>{Claim::memory}) << said(outcome);
  EXPECT_NE(said(outcome).find("after the step: the device's pool: got "), std::string::npos)
      << said(outcome);
}

}  // namespace
}  // namespace zp
