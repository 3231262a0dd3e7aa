// Messages through pinned memory: copied there before they are sent, and from there once they have arrived.
#include "harness/transport/staged.hpp"

#include <algorithm>
#include <deque>
#include <vector>

namespace zp::transport {
namespace {

constexpr Bytes kSlot = std::max(kPiece, kLongestMessage);

// Pinned memory, and the last copy from or to it.
struct Slot {
  std::byte* memory = nullptr;
  std::shared_ptr<Mark> copy;
};

// Who writes a slot first. The stream needs no copy to be over: it makes them in order.
enum class Filler { host, stream };

class Slots {
 public:
  explicit Slots(FarMemory& memory) : memory_(memory) {}
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots() {
    for (const Slot& slot : free_) {
      try {
        if (slot.copy) slot.copy->wait();
      } catch (const Error&) {
        // A device that failed has said so to whoever waited for its results.
      }
      memory_.unpin(slot.memory);
    }
  }

  Slot take(Filler filler) {
    const auto free = std::ranges::find_if(
        free_, [&](const Slot& s) { return filler == Filler::stream || !s.copy || s.copy->done(); });
    if (free == free_.end()) return {memory_.pin(kSlot), nullptr};
    Slot slot{free->memory, nullptr};
    free_.erase(free);
    return slot;
  }
  void give_back(Slot slot) { free_.push_back(std::move(slot)); }

 private:
  FarMemory& memory_;
  std::vector<Slot> free_;
};

class StagedLink;

struct Sending {
  int peer;
  Tag tag;
  size_t bytes;
  Slot slot;
  std::unique_ptr<Request> request;  // none before the copy is over
};

class SendRequest final : public Request {
 public:
  SendRequest(StagedLink& link, std::shared_ptr<Sending> sending)
      : link_(link), sending_(std::move(sending)) {}
  ~SendRequest() override;
  bool done() override;

 private:
  StagedLink& link_;
  std::shared_ptr<Sending> sending_;
};

class ReceiveRequest final : public Request {
 public:
  ReceiveRequest(StagedLink& link, Slot slot, std::unique_ptr<Request> inner, std::span<std::byte> into)
      : link_(link), slot_(std::move(slot)), inner_(std::move(inner)), into_(into) {}
  ~ReceiveRequest() override;
  bool done() override;

 private:
  StagedLink& link_;
  Slot slot_;
  std::unique_ptr<Request> inner_;  // none once it has arrived
  std::span<std::byte> into_;
};

class StagedLink final : public Link {
 public:
  StagedLink(Link& inner, FarMemory& memory, Stream& stream)
      : inner_(inner), slots_(memory), stream_(stream) {}
  int rank() const override { return inner_.rank(); }
  int world() const override { return inner_.world(); }

  std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) override {
    auto sending = std::make_shared<Sending>(
        Sending{peer, tag, bytes.size(), take(bytes.size(), Filler::stream), nullptr});
    stream_.to_pinned(bytes, sending->slot.memory);
    sending->slot.copy = stream_.mark();
    unsent_.push_back(sending);
    return std::make_unique<SendRequest>(*this, sending);
  }

  std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) override {
    const Slot slot = take(bytes.size(), Filler::host);
    auto request = inner_.receive(peer, tag, {slot.memory, bytes.size()});
    return std::make_unique<ReceiveRequest>(*this, slot, std::move(request), bytes);
  }

  bool is_held_up() const override { return !unsent_.empty() && !unsent_.front()->slot.copy->done(); }

  // Sends, in order, what has been copied.
  void post() {
    for (; !unsent_.empty() && unsent_.front()->slot.copy->done(); unsent_.pop_front()) {
      Sending& next = *unsent_.front();
      next.request = inner_.send(next.peer, next.tag, {next.slot.memory, next.bytes});
    }
  }
  void withdraw(const std::shared_ptr<Sending>& sending) {
    std::erase(unsent_, sending);
    sending->request.reset();
    slots_.give_back(std::move(sending->slot));
  }
  void deliver(Slot& slot, std::span<std::byte> into) {
    stream_.from_pinned(slot.memory, into);
    slot.copy = stream_.mark();
  }
  void give_back(Slot slot) { slots_.give_back(std::move(slot)); }

 private:
  Slot take(size_t bytes, Filler filler) {
    require(static_cast<int64_t>(bytes) <= kSlot.n, "a message fits its pinned memory");
    return slots_.take(filler);
  }

  Link& inner_;
  Slots slots_;
  Stream& stream_;
  std::deque<std::shared_ptr<Sending>> unsent_;
};

SendRequest::~SendRequest() { link_.withdraw(sending_); }

bool SendRequest::done() {
  link_.post();
  return sending_->request != nullptr && sending_->request->done();
}

ReceiveRequest::~ReceiveRequest() {
  inner_.reset();
  link_.give_back(std::move(slot_));
}

bool ReceiveRequest::done() {
  if (inner_ == nullptr) return true;
  if (!inner_->done()) return false;
  inner_.reset();
  link_.deliver(slot_, into_);
  return true;
}

}  // namespace
}  // namespace zp::transport

namespace zp {

std::unique_ptr<Link> make_staged_link(Link& inner, FarMemory& memory, Stream& stream) {
  return std::make_unique<transport::StagedLink>(inner, memory, stream);
}

}  // namespace zp
