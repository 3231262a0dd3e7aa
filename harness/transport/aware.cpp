// Messages of a device's memory, handed on in the order in which they were put, each after its stream.
#include "harness/transport/aware.hpp"

#include <deque>
#include <functional>
#include <utility>

namespace zp::transport {
namespace {

using Begin = std::function<std::unique_ptr<Request>()>;

struct HeldBack {
  std::shared_ptr<Mark> before;  // what it waits for
  Begin begin;
  std::unique_ptr<Request> request;  // none before it has begun
};

class AwareLink;

class AwareRequest final : public Request {
 public:
  AwareRequest(AwareLink& link, std::shared_ptr<HeldBack> message)
      : link_(link), message_(std::move(message)) {}
  ~AwareRequest() override;
  bool done() override;

 private:
  AwareLink& link_;
  std::shared_ptr<HeldBack> message_;
};

class AwareLink final : public Link {
 public:
  AwareLink(Link& inner, Stream& stream) : inner_(inner), stream_(stream) {}
  int rank() const override { return inner_.rank(); }
  int world() const override { return inner_.world(); }

  std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) override {
    return put([this, peer, tag, bytes] { return inner_.send(peer, tag, bytes); });
  }
  std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) override {
    return put([this, peer, tag, bytes] { return inner_.receive(peer, tag, bytes); });
  }

  bool is_held_up() const override { return !waiting_.empty() && !waiting_.front()->before->done(); }

  // Hands on, in order, what need not wait any more.
  void hand_on() {
    for (; !waiting_.empty() && waiting_.front()->before->done(); waiting_.pop_front()) {
      HeldBack& next = *waiting_.front();
      next.request = next.begin();
    }
  }
  void withdraw(const std::shared_ptr<HeldBack>& message) { std::erase(waiting_, message); }

 private:
  std::unique_ptr<Request> put(Begin begin) {
    auto message = std::make_shared<HeldBack>(HeldBack{stream_.mark(), std::move(begin), nullptr});
    auto request = std::make_unique<AwareRequest>(*this, message);
    waiting_.push_back(std::move(message));
    hand_on();
    return request;
  }

  Link& inner_;
  Stream& stream_;
  std::deque<std::shared_ptr<HeldBack>> waiting_;
};

AwareRequest::~AwareRequest() { link_.withdraw(message_); }

bool AwareRequest::done() {
  link_.hand_on();
  return message_->request != nullptr && message_->request->done();
}

}  // namespace
}  // namespace zp::transport

namespace zp {

std::unique_ptr<Link> make_aware_link(Link& inner, Stream& stream) {
  return std::make_unique<transport::AwareLink>(inner, stream);
}

}  // namespace zp
