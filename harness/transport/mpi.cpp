// Ranks as processes of one MPI job. Messages travel on one communicator, the control line on another, both
// fresh in every run, so that nothing that a failed run left behind is ever matched. One thread calls MPI.
#include <list>
#include <thread>

#include "harness/transport/mpi_job.hpp"
#include "harness/transport/mpi_native.hpp"
#include "harness/transport/mpi_process.hpp"
#include "harness/transport/rows.hpp"
#include "harness/transport/tag_packing.hpp"

namespace zp::transport {
namespace {

constexpr int kCalls = 8192;  // two tags each, of the 32767 that every MPI has

// ---- Messages ---------------------------------------------------------------------------------------------

class MpiRequest final : public Request {
 public:
  MpiRequest(Job& job, size_t bytes) : job_(job), bytes_(bytes) {}
  ~MpiRequest() override { job_.withdraw(transit); }

  bool done() override {
    job_.advance(transit);
    if (transit.outcome.state != Posted::State::complete) {
      job_.check_failure();
      return false;
    }
    if (transit.direction == Direction::receive && transit.outcome.bytes != bytes_) {
      fail(Exit::transport, "rank " + std::to_string(job_.rank()) + " received " +
                                std::to_string(transit.outcome.bytes) + " bytes where " +
                                std::to_string(bytes_) + " were expected");
    }
    return true;
  }

  Transit transit;

 private:
  Job& job_;
  size_t bytes_;
};

class MpiLink final : public Link {
 public:
  explicit MpiLink(Job& job) : job_(job), tags_(job.messages.largest_tag()), yields_(mpi_yields()) {}
  int rank() const override { return job_.rank(); }
  int world() const override { return job_.world(); }

  std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) override {
    auto request = std::make_unique<MpiRequest>(job_, bytes.size());
    job_.send(request->transit, peer, tags_.pack(tag), bytes);
    return request;
  }
  std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) override {
    auto request = std::make_unique<MpiRequest>(job_, bytes.size());
    job_.receive(request->transit, peer, tags_.pack(tag), bytes);
    return request;
  }
  bool yields() const override { return yields_; }

 private:
  Job& job_;
  TagPacking tags_;
  bool yields_;
};

// ---- The control line -------------------------------------------------------------------------------------

// Texts to and from other ranks with one tag, whose lengths the receiver does not know beforehand. Texts
// whose messages have not ended when the mail does are kept by the job.
class Mail {
 public:
  Mail(Job& job, int tag) : job_(job), tag_(tag), texts_(static_cast<size_t>(job.world())) {}
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;
  ~Mail() {
    job_.kept.splice(job_.kept.end(), sent_);
    for (Incoming& incoming : missing_) job_.kept.splice(job_.kept.end(), incoming.begun);
  }

  void send(const std::string& text, int peer) {
    Job::Kept& kept = sent_.emplace_back(Job::Kept{.text = text, .posted = {}});
    kept.posted = job_.control.send(kept.text.data(), kept.text.size(), peer, tag_);
  }
  void expect(int peer) { missing_.emplace_back().peer = peer; }

  // True when something moved.
  bool advance() {
    const size_t before = missing_.size() + sent_.size();
    missing_.remove_if([this](Incoming& incoming) { return take(incoming); });
    sent_.remove_if([](Job::Kept& sent) { return sent.posted.test().state != Posted::State::active; });
    return missing_.size() + sent_.size() != before;
  }
  bool complete() const { return missing_.empty() && sent_.empty(); }
  std::string missing() const {
    std::string text;
    for (const Incoming& incoming : missing_) text += " rank " + std::to_string(incoming.peer);
    return text.empty() ? " its own messages to leave" : text;
  }
  std::optional<std::string>& text(int rank) { return texts_[static_cast<size_t>(rank)]; }
  std::vector<std::optional<std::string>>& texts() { return texts_; }

 private:
  struct Incoming {
    int peer = 0;
    std::list<Job::Kept> begun;  // at most one
  };

  bool take(Incoming& incoming) {
    if (incoming.begun.empty()) {
      const auto arrival = job_.control.arrival(incoming.peer, tag_);
      if (!arrival) return false;
      Job::Kept& kept = incoming.begun.emplace_back(Job::Kept{std::string(arrival->bytes, '\0'), {}});
      kept.posted = job_.control.receive(kept.text.data(), kept.text.size(), incoming.peer, tag_);
    }
    Job::Kept& kept = incoming.begun.front();
    if (kept.posted.test().state == Posted::State::active) return false;
    text(incoming.peer) = std::move(kept.text);
    return true;
  }

  Job& job_;
  int tag_;
  std::vector<std::optional<std::string>> texts_;
  std::list<Incoming> missing_;
  std::list<Job::Kept> sent_;
};

class MpiControl final : public Control {
 public:
  MpiControl(Job& job, double timeout_s) : job_(job), timeout_s_(timeout_s) {}
  int rank() const override { return job_.rank(); }
  int world() const override { return job_.world(); }

  std::vector<std::string> all_gather(const std::string& mine) override {
    job_.check_failure();
    Mail mail(job_, next_tag(0));
    exchange(mail, mine);
    complete(mail);
    std::vector<std::string> texts;
    for (auto& text : mail.texts()) texts.emplace_back(std::move(*text));
    return texts;
  }

  std::string broadcast(const std::string& from_rank0) override {
    job_.check_failure();
    Mail mail(job_, next_tag(1));
    if (rank() == 0) {
      each_other([&](int peer) { mail.send(from_rank0, peer); });
      mail.text(0) = from_rank0;
    } else {
      mail.expect(0);
    }
    complete(mail);
    return std::move(*mail.text(0));
  }

  void alive() override {
    job_.check_failure();
    // A word now and then is enough, and must not pile up at a rank that does not listen.
    if (Clock::now() - said_alive_ < seconds(timeout_s_ / 16)) return;
    said_alive_ = Clock::now();
    each_other([&](int peer) { alive_.push_back(job_.control.send(nullptr, 0, peer, kAlive)); });
    alive_.remove_if([](Posted& sent) { return sent.test().state != Posted::State::active; });
  }

  void check() override { job_.check_failure(); }
  void announce_failure(Exit code, const std::string& text) override { job_.announce(code, text); }

  std::vector<std::optional<std::string>> last_words(const std::string& mine, double timeout_s) override {
    Mail mail(job_, kLastWords);
    mail.text(rank()) = mine;
    if (mpi_given_up()) return mail.texts();
    exchange(mail, mine);
    for (Patience patience(timeout_s, kLongestSleep); !mail.complete() && !patience.expired();) {
      job_.look();
      if (!mail.advance()) patience.pause();
    }
    return mail.texts();
  }

 private:
  template <class F>
  void each_other(const F& act) {
    for (int peer = 0; peer < world(); ++peer) {
      if (peer != rank()) act(peer);
    }
  }

  void exchange(Mail& mail, const std::string& mine) {
    each_other([&](int peer) {
      mail.send(mine, peer);
      mail.expect(peer);
    });
    mail.text(rank()) = mine;
  }

  // A gather and a broadcast of the same number never match.
  int next_tag(int kind) { return kCall + 2 * static_cast<int>(number_++ % kCalls) + kind; }

  void complete(Mail& mail) {
    Patience patience(timeout_s_, kLongestSleep);
    while (!mail.complete()) {
      const bool moved = mail.advance();
      if (moved || heard_alive()) {
        patience.restart();
        continue;
      }
      job_.check_failure();
      if (patience.expired()) {
        fail(Exit::timeout, "rank " + std::to_string(rank()) + " waited on the control line for" +
                                mail.missing() + " in call number " + std::to_string(number_ - 1));
      }
      patience.pause();
    }
  }

  bool heard_alive() {
    if (rank() == 0) return false;
    if (!job_.control.arrival(0, kAlive)) return false;
    Posted word = job_.control.receive(nullptr, 0, 0, kAlive);
    while (word.test().state == Posted::State::active) std::this_thread::yield();
    return true;
  }

  Job& job_;
  double timeout_s_;
  int64_t number_ = 0;  // of the next collective call
  Clock::time_point said_alive_{};
  std::list<Posted> alive_;
};

}  // namespace

void run_mpi(int world, double timeout_s, const std::function<void(Endpoint&)>& body) {
  start_mpi();
  check_world(world);
  // The job of a failed run is kept for as long as the process lives: MPI may still hold messages of its
  // control line.
  static std::list<Job> failed;
  std::list<Job> running;
  Job& job = running.emplace_back(timeout_s);
  const auto end_failed = [&] {
    job.leave();
    failed.splice(failed.end(), running);
  };
  Endpoint endpoint{.link = std::make_unique<MpiLink>(job),
                    .control = std::make_unique<MpiControl>(job, timeout_s),
                    .first_of_node = first_of_node(),
                    .native = make_mpi_native(job)};
  try {
    body(endpoint);
    // A rank that has ended must still hear of another's failure.
    if (!job.failed()) endpoint.control->barrier();
  } catch (...) {
    const Announcement own = announcement(job.rank());
    job.announce(own.code, own.text);
    end_failed();
    throw;
  }
  if (job.failed()) {
    end_failed();
  } else {
    job.close();
  }
}

}  // namespace zp::transport
