// Ranks as threads of one process. A message is copied once, by its receiver, straight from the sender's
// memory; a request that is withdrawn leaves no pointer behind. Waits on the control line sleep on a
// condition variable.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "harness/base/float_environment.hpp"
#include "harness/transport/patience.hpp"
#include "harness/transport/rows.hpp"

namespace zp::transport {
namespace {

// The first failure that any rank announced.
class Failure {
 public:
  void announce(Exit code, const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::make_unique<Error>(code, text);
    announced_.store(true, std::memory_order_release);
  }
  bool announced() const { return announced_.load(std::memory_order_acquire); }
  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (error_) throw Error(*error_);
  }

 private:
  std::atomic<bool> announced_{false};
  mutable std::mutex mutex_;
  std::unique_ptr<Error> error_;
};

// ---- Messages ---------------------------------------------------------------------------------------------

enum class State { posted, matched, copying, copied, withdrawn };

// Both ends of one message. The memory of each end is touched only while neither is withdrawn.
struct Message {
  Tag tag;
  std::span<const std::byte> from;
  std::span<std::byte> into;
  State state = State::posted;
};

bool match(const Tag& a, const Tag& b) { return a.sequence == b.sequence && a.tensor == b.tensor; }

// Messages from one rank to another. Sends and receives of one tag pair up in the order posted.
class Mailbox {
 public:
  std::shared_ptr<Message> send(const Tag& tag, std::span<const std::byte> from) {
    const std::lock_guard lock(mutex_);
    auto message = take_or_post(receives_, sends_, tag);
    message->from = from;
    return message;
  }
  std::shared_ptr<Message> receive(const Tag& tag, std::span<std::byte> into) {
    const std::lock_guard lock(mutex_);
    auto message = take_or_post(sends_, receives_, tag);
    message->into = into;
    return message;
  }

  bool copied(const Message& message) {
    const std::lock_guard lock(mutex_);
    return message.state == State::copied;
  }

  // By the receiver: copies a matched message. True once it has been copied.
  bool copy(Message& message) {
    {
      const std::lock_guard lock(mutex_);
      if (message.state != State::matched) return message.state == State::copied;
      if (message.from.size() != message.into.size()) {
        fail(Exit::transport, "a message of collective number " + std::to_string(message.tag.sequence) +
                                  " holds " + std::to_string(message.from.size()) + " bytes where " +
                                  std::to_string(message.into.size()) + " were expected");
      }
      message.state = State::copying;
    }
    std::copy(message.from.begin(), message.from.end(), message.into.begin());
    {
      const std::lock_guard lock(mutex_);
      message.state = State::copied;
    }
    changed_.notify_all();
    return true;
  }

  // By either end: on return the other end no longer touches this one's memory.
  void withdraw(const std::shared_ptr<Message>& message) {
    std::unique_lock lock(mutex_);
    std::erase(sends_, message);
    std::erase(receives_, message);
    changed_.wait(lock, [&] { return message->state != State::copying; });
    if (message->state != State::copied) message->state = State::withdrawn;
  }

 private:
  using Queue = std::deque<std::shared_ptr<Message>>;

  static std::shared_ptr<Message> take_or_post(Queue& others, Queue& ours, const Tag& tag) {
    const auto found = std::find_if(others.begin(), others.end(),
                                    [&](const auto& message) { return match(message->tag, tag); });
    if (found == others.end()) {
      ours.push_back(std::make_shared<Message>());
      ours.back()->tag = tag;
      return ours.back();
    }
    auto message = *found;
    message->state = State::matched;
    others.erase(found);
    return message;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Queue sends_, receives_;  // posted, not matched
};

class ThreadRequest final : public Request {
 public:
  enum class End { sender, receiver };
  ThreadRequest(End end, Mailbox& mailbox, std::shared_ptr<Message> message, const Failure& failure)
      : end_(end), mailbox_(mailbox), message_(std::move(message)), failure_(failure) {}
  ~ThreadRequest() override {
    if (!done_) mailbox_.withdraw(message_);
  }
  bool done() override {
    if (!done_) done_ = end_ == End::sender ? mailbox_.copied(*message_) : mailbox_.copy(*message_);
    if (!done_ && failure_.announced()) failure_.rethrow();
    return done_;
  }

 private:
  End end_;
  Mailbox& mailbox_;
  std::shared_ptr<Message> message_;
  const Failure& failure_;
  bool done_ = false;
};

// ---- The control line -------------------------------------------------------------------------------------

// What the ranks of one world share.
class Board {
 public:
  explicit Board(int world) : world_(world), last_words_(static_cast<size_t>(world)) {}

  Failure failure;

  // One collective call: every rank brings its text (only rank 0 in a broadcast) and gets all.
  std::vector<std::string> exchange(int rank, int64_t number, bool from_all, const std::string& mine,
                                    Clock::duration timeout) {
    failure.rethrow();
    std::unique_lock lock(mutex_);
    Call& call = calls_[number];
    if (call.texts.empty()) {
      call.texts.resize(static_cast<size_t>(world_));
      call.from_all = from_all;
    }
    if (call.from_all != from_all) {
      fail(Exit::internal, "rank " + std::to_string(rank) +
                               " gathers on the control line where others broadcast, or "
                               "the other way round");
    }
    if (from_all || rank == 0) call.texts[static_cast<size_t>(rank)] = mine;
    changed_.notify_all();

    const auto began = Clock::now();
    while (!missing(call).empty()) {
      failure.rethrow();
      const auto deadline = std::max(began, alive_) + timeout;
      if (Clock::now() >= deadline) {
        fail(Exit::timeout, "rank " + std::to_string(rank) + " waited on the control line for" +
                                missing(call) + " in call number " + std::to_string(number));
      }
      changed_.wait_until(lock, deadline);
    }
    std::vector<std::string> texts;
    for (const auto& text : call.texts) texts.push_back(text.value_or(""));
    if (++call.taken == world_) calls_.erase(number);
    return texts;
  }

  void alive() {
    const std::lock_guard lock(mutex_);
    alive_ = Clock::now();
  }

  void announce(Exit code, const std::string& text) {
    failure.announce(code, text);
    const std::lock_guard lock(mutex_);  // so that a rank that is about to sleep hears it
    changed_.notify_all();
  }

  std::vector<std::optional<std::string>> last_words(int rank, const std::string& mine,
                                                     Clock::duration timeout) {
    const auto deadline = Clock::now() + timeout;
    std::unique_lock lock(mutex_);
    last_words_[static_cast<size_t>(rank)] = mine;
    changed_.notify_all();
    changed_.wait_until(lock, deadline, [&] {
      return std::all_of(last_words_.begin(), last_words_.end(),
                         [](const auto& text) { return text.has_value(); });
    });
    return last_words_;
  }

 private:
  struct Call {
    std::vector<std::optional<std::string>> texts;
    bool from_all = true;
    int taken = 0;
  };

  // " rank 1 rank 2", or nothing.
  static std::string missing(const Call& call) {
    std::string text;
    const size_t count = call.from_all ? call.texts.size() : 1;
    for (size_t rank = 0; rank < count; ++rank) {
      if (!call.texts[rank]) text += " rank " + std::to_string(rank);
    }
    return text;
  }

  int world_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Call> calls_;
  Clock::time_point alive_ = Clock::now();
  std::vector<std::optional<std::string>> last_words_;
};

// ---- One world --------------------------------------------------------------------------------------------

struct World {
  explicit World(int world) : size(world), board(world), mailboxes(static_cast<size_t>(world) * world) {}
  Mailbox& mailbox(int from, int to) { return mailboxes[static_cast<size_t>(from) * size + to]; }

  int size;
  Board board;
  std::vector<Mailbox> mailboxes;
};

class ThreadLink final : public Link {
 public:
  ThreadLink(World& world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int world() const override { return world_.size; }

  std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) override {
    Mailbox& mailbox = world_.mailbox(rank_, peer);
    return std::make_unique<ThreadRequest>(ThreadRequest::End::sender, mailbox, mailbox.send(tag, bytes),
                                           world_.board.failure);
  }
  std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) override {
    Mailbox& mailbox = world_.mailbox(peer, rank_);
    return std::make_unique<ThreadRequest>(ThreadRequest::End::receiver, mailbox, mailbox.receive(tag, bytes),
                                           world_.board.failure);
  }

 private:
  World& world_;
  int rank_;
};

class ThreadControl final : public Control {
 public:
  ThreadControl(World& world, int rank, double timeout_s)
      : world_(world), rank_(rank), timeout_(seconds(timeout_s)) {}
  int rank() const override { return rank_; }
  int world() const override { return world_.size; }

  std::vector<std::string> all_gather(const std::string& mine) override {
    return world_.board.exchange(rank_, number_++, true, mine, timeout_);
  }
  std::string broadcast(const std::string& from_rank0) override {
    return world_.board.exchange(rank_, number_++, false, from_rank0, timeout_).front();
  }
  void alive() override {
    world_.board.failure.rethrow();
    world_.board.alive();
  }
  void check() override {
    if (world_.board.failure.announced()) world_.board.failure.rethrow();
  }
  void announce_failure(Exit code, const std::string& text) override { world_.board.announce(code, text); }
  std::vector<std::optional<std::string>> last_words(const std::string& mine, double timeout_s) override {
    return world_.board.last_words(rank_, mine, seconds(timeout_s));
  }

 private:
  World& world_;
  int rank_;
  Clock::duration timeout_;
  int64_t number_ = 0;  // of the next collective call
};

// The first exception of any rank.
class FirstException {
 public:
  void keep(std::exception_ptr exception) {
    const std::lock_guard lock(mutex_);
    if (!exception_) exception_ = std::move(exception);
  }
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr exception_;
};

}  // namespace

void run_threads(int world, double timeout_s, const std::function<void(Endpoint&)>& body) {
  require(world >= 1, "a world has at least one rank");
  World shared(world);
  FirstException first;
  const auto rank_main = [&](int rank) {
    Endpoint endpoint{.link = std::make_unique<ThreadLink>(shared, rank),
                      .control = std::make_unique<ThreadControl>(shared, rank, timeout_s)};
    try {
      require_float_environment();
      body(endpoint);
    } catch (...) {
      first.keep(std::current_exception());
      const Announcement own = announcement(rank);
      endpoint.control->announce_failure(own.code, own.text);
    }
  };
  {
    std::vector<std::jthread> ranks;
    ranks.reserve(static_cast<size_t>(world));
    for (int rank = 0; rank < world; ++rank) ranks.emplace_back(rank_main, rank);
  }
  first.rethrow();
}

}  // namespace zp::transport
