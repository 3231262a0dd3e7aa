// Messages of a device's memory between all ranks, compared on the host with what they must be.
#include <algorithm>
#include <array>

#include "harness/base/random.hpp"
#include "harness/device/host_access.hpp"
#include "harness/transport/aware.hpp"
#include "harness/transport/patience.hpp"

namespace zp::transport {
namespace {

// Libraries send what is short at once, and what is long when the receiver is there, each in its own way.
constexpr size_t kAt = 13;
constexpr std::array<size_t, 2> kLengths{1009, static_cast<size_t>(kLongestMessage.n) - 5};
constexpr Elements kHeld{(kLongestMessage.n + 32) / 2};  // of two bytes: more than the longest from kAt on

using Contents = std::vector<std::byte>;

// What lies in the memory that `from` sends to `to`.
Contents contents(int from, int to) {
  Contents bytes(static_cast<size_t>(2 * kHeld.n));
  const uint64_t key = mix64((static_cast<uint64_t>(from) << 32U) + static_cast<uint64_t>(to));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random_bits(key, i));
  return bytes;
}

class Trial {
 public:
  Trial(Link& link, Device& device, double timeout_s)
      : link_(link),
        timeout_s_(timeout_s),
        sent_(device.acquire(Category::transport, Type::bf16, kHeld)),
        received_(device.acquire(Category::transport, Type::bf16, kHeld)) {}

  // The first fault of this rank; "": none. All messages are exchanged: others wait for them.
  std::string run() {
    const int world = link_.world();
    std::string fault;
    for (int distance = 1; distance < world; ++distance) {
      const int to = (link_.rank() + distance) % world;
      const int from = (link_.rank() + world - distance) % world;
      for (const size_t length : kLengths) {
        const std::string found = exchange(to, from, length);
        if (fault.empty()) fault = found;
      }
    }
    return fault;
  }

 private:
  std::string exchange(int to, int from, size_t length) {
    write_from_host(sent_.all(), std::span<const std::byte>(contents(link_.rank(), to)));
    // No byte of it is what it must become.
    Contents expected = contents(from, link_.rank());
    for (std::byte& byte : expected) byte = ~byte;
    write_from_host(received_.all(), std::span<const std::byte>(expected));
    for (size_t i = kAt; i < kAt + length; ++i) expected[i] = ~expected[i];
    carry(to, from, length);
    const HostBytes arrived(received_.all());
    const auto [is, must] = std::ranges::mismatch(arrived.bytes(), expected);
    if (is == arrived.bytes().end()) return {};
    const auto number = [](std::byte byte) { return std::to_string(std::to_integer<int>(byte)); };
    return "after a message of " + std::to_string(length) + " bytes from rank " + std::to_string(from) +
           ", which begins at byte " + std::to_string(kAt) + ", byte " +
           std::to_string(must - expected.begin()) + " of rank " + std::to_string(link_.rank()) + " is " +
           number(*is) + ", expected " + number(*must);
  }

  void carry(int to, int from, size_t length) {
    const auto bytes = [length](const Buffer& buffer) {
      return std::span(static_cast<std::byte*>(buffer.all().raw()) + kAt, length);
    };
    const Tag tag{.sequence = static_cast<int64_t>(length)};
    const auto arriving = link_.receive(from, tag, bytes(received_));
    const auto leaving = link_.send(to, tag, bytes(sent_));
    Patience patience(timeout_s_, kLongestSleepInCollectives);
    for (bool arrived = false, left = false; !arrived || !left; patience.pause()) {
      arrived = arrived || arriving->done();
      left = left || leaving->done();
      if ((arrived && left) || !patience.expired()) continue;
      fail(Exit::timeout, "a message of " + std::to_string(length) + " bytes " +
                              (arrived ? "to rank " + std::to_string(to) + " did not leave"
                                       : "from rank " + std::to_string(from) + " did not come"));
    }
  }

  Link& link_;
  double timeout_s_;
  Buffer sent_, received_;
};

}  // namespace
}  // namespace zp::transport

namespace zp {

std::optional<std::string> fault_in_reach(Link& link, Device& device, Control& control, double timeout_s) {
  for (std::string& fault : control.all_gather(transport::Trial(link, device, timeout_s).run())) {
    if (!fault.empty()) return std::move(fault);
  }
  return std::nullopt;
}

}  // namespace zp
