// A link that says it reaches the memory of devices is believed once it does: links that lie are found out.
#include <gtest/gtest.h>

#include <mutex>

#include "correctness/cuda_emulator/settings.hpp"
#include "harness/device/cuda_device.hpp"
#include "harness/transport/aware.hpp"

namespace zp {
namespace {

constexpr double kLong = 60.0, kShort = 0.3;  // seconds: nobody waits that long; somebody does

enum class Lie {
  none,
  flips_a_bit,
  leaves_the_last_out,
  goes_too_far,
  begins_late,
  brings_nothing,
  is_silent
};

// Of a message that came to `rank` from `peer`.
void spoil(Lie lie, std::span<std::byte> bytes, const std::vector<std::byte>& before) {
  if (lie == Lie::flips_a_bit) bytes[bytes.size() / 2] ^= std::byte{64};
  if (lie == Lie::leaves_the_last_out) bytes.back() = before.back();
  if (lie == Lie::goes_too_far) *(bytes.data() + bytes.size()) ^= std::byte{1};
  if (lie == Lie::begins_late) bytes.front() = before.front();
  if (lie == Lie::brings_nothing) std::ranges::copy(before, bytes.begin());
}

class LyingRequest final : public Request {
 public:
  LyingRequest(std::unique_ptr<Request> inner, Lie lie, std::span<std::byte> bytes)
      : inner_(std::move(inner)), lie_(lie), bytes_(bytes), before_(bytes.begin(), bytes.end()) {}
  bool done() override {
    if (!inner_->done() || lie_ == Lie::is_silent) return false;
    spoil(lie_, bytes_, before_);
    return true;
  }

 private:
  std::unique_ptr<Request> inner_;
  Lie lie_;
  std::span<std::byte> bytes_;
  std::vector<std::byte> before_;
};

// Lies to one rank, of messages of one length.
class LyingLink final : public Link {
 public:
  LyingLink(Link& inner, Lie lie, size_t length) : inner_(inner), lie_(lie), length_(length) {}
  int rank() const override { return inner_.rank(); }
  int world() const override { return inner_.world(); }
  std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) override {
    return inner_.send(peer, tag, bytes);
  }
  std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) override {
    const Lie lie = rank() == 1 && bytes.size() == length_ ? lie_ : Lie::none;
    return std::make_unique<LyingRequest>(inner_.receive(peer, tag, bytes), lie, bytes);
  }

 private:
  Link& inner_;
  Lie lie_;
  size_t length_;
};

constexpr size_t kShortMessage = 1009, kLongMessage = 262'139;

// What every rank is told; throws what all throw.
std::vector<std::optional<std::string>> told(int world, Lie lie, size_t length, double timeout_s = kLong) {
  emulated::configure({.guard = 0});
  std::vector<std::optional<std::string>> faults(static_cast<size_t>(world));
  transport_named("threads").run(world, kLong, [&](Endpoint& endpoint) {
    const int rank = endpoint.link->rank();
    const auto device = make_cuda_device(rank, Fill::nan);
    const auto stream = device->make_stream();
    LyingLink lying(*endpoint.link, lie, length);
    const auto link = make_aware_link(lying, *stream);
    faults[static_cast<size_t>(rank)] = fault_in_reach(*link, *device, *endpoint.control, timeout_s);
  });
  emulated::configure({});
  return faults;
}

TEST(AwareTrial, FindsNothingAmissWithALinkThatReachesTheMemory) {
  for (const int world : {1, 2, 3}) {
    for (const auto& fault : told(world, Lie::none, 0)) EXPECT_EQ(fault, std::nullopt) << *fault;
  }
}

struct Lied {
  Lie lie;
  size_t length;
  const char* words;
};

TEST(AwareTrial, NamesTheFirstByteThatIsNotAsItWasSentOnEveryRank) {
  for (const Lied& lied : {Lied{Lie::flips_a_bit, kShortMessage, "byte 517 of rank 1 is"},
                           Lied{Lie::flips_a_bit, kLongMessage,
                                "message of 262139 bytes from rank 0, which begins at byte 13, "
                                "byte 131082 of rank 1 is"},
                           Lied{Lie::leaves_the_last_out, kLongMessage, "byte 262151 of rank 1 is"},
                           Lied{Lie::goes_too_far, kShortMessage, "byte 1022 of rank 1 is"},
                           Lied{Lie::begins_late, kShortMessage, "byte 13 of rank 1 is"},
                           Lied{Lie::brings_nothing, kLongMessage, "byte 13 of rank 1 is"}}) {
    for (const auto& fault : told(3, lied.lie, lied.length)) {
      ASSERT_TRUE(fault) << lied.words;
      EXPECT_NE(fault->find(lied.words), std::string::npos) << *fault;
    }
  }
}

TEST(AwareTrial, WaitsNoLongerThanTheDeadline) {
  try {
    told(2, Lie::is_silent, kLongMessage, kShort);
    FAIL() << "a message that never comes is waited for";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::timeout);
    EXPECT_STREQ(error.what(), "a message of 262139 bytes from rank 0 did not come");
  }
  emulated::configure({});
}

}  // namespace
}  // namespace zp
