// Ranks as processes of one MPI job. Messages travel on one communicator, the control line on another, both
// fresh in every run, so that nothing that a failed run left behind is ever matched. One thread calls MPI.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <list>
#include <thread>

#include "harness/transport/mpi_process.hpp"
#include "harness/transport/patience.hpp"
#include "harness/transport/rows.hpp"
#include "harness/transport/tag_packing.hpp"

namespace zp::transport {
namespace {

constexpr std::chrono::milliseconds kLongestSleep{2};
// What a request that is given up may take to end.
constexpr std::chrono::milliseconds kMoment{50};
constexpr std::chrono::microseconds kBetweenTests{200};

int count_of(size_t bytes) {
  require(bytes <= size_t{INT_MAX}, "an MPI message is shorter than 2 GiB");
  return static_cast<int>(bytes);
}

// ---- Requests ---------------------------------------------------------------------------------------------

// One MPI request. Its end takes the memory back: a receive is cancelled; a transfer that both sides have
// begun is completed, within a moment. A send that no receive has met cannot be cancelled; its memory is not
// read any more, because the communicator of a failed run is never used again.
class Started {
 public:
  Started() = default;
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  ~Started() { withdraw(Clock::now() + kMoment); }

  void withdraw(Clock::time_point until) {
    if (active() && receives_) MPI_Cancel(&request_);
    for (bool late = false; active() && !late; std::this_thread::sleep_for(kBetweenTests)) {
      late = Clock::now() >= until;
      int flag = 0;
      if (MPI_Test(&request_, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) late = true;
      if (flag != 0) return;
    }
    if (active()) MPI_Request_free(&request_);
  }

  bool active() const { return request_ != MPI_REQUEST_NULL; }
  bool receives() const { return receives_; }

  void send(const void* data, size_t bytes, int peer, int tag, MPI_Comm comm) {
    check_mpi(MPI_Isend(data, count_of(bytes), MPI_BYTE, peer, tag, comm, &request_), "MPI_Isend");
  }
  void receive(void* data, size_t bytes, int peer, int tag, MPI_Comm comm) {
    receives_ = true;
    check_mpi(MPI_Irecv(data, count_of(bytes), MPI_BYTE, peer, tag, comm, &request_), "MPI_Irecv");
  }

  // Bytes received (0 for a send) once it is complete.
  std::optional<size_t> test() {
    int flag = 0, count = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&request_, &flag, &status), "MPI_Test");
    if (flag == 0) return std::nullopt;
    if (receives_) check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    return static_cast<size_t>(count);
  }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool receives_ = false;
};

// ---- The two communicators of a run -----------------------------------------------------------------------

// Tags of the control line. Collective calls count on from kCall.
enum ControlTag : int { kFailure = 0, kAlive = 1, kLastWords = 2, kCall = 3 };
constexpr int kCalls = 8192;  // two tags each, of the 32767 that every MPI has

class Lines {
 public:
  explicit Lines(double timeout_s) : timeout_s_(timeout_s) {
    duplicate(&messages);
    duplicate(&control);
    check_mpi(MPI_Comm_rank(control, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(control, &world), "MPI_Comm_size");
    heard_ = std::make_unique<Started>();
    heard_->receive(announced_.data(), announced_.size(), MPI_ANY_SOURCE, kFailure, control);
  }

  // After a clean run. Communicators of a failed one are kept: messages may still lie in them.
  void close() {
    heard_.reset();
    check_mpi(MPI_Comm_free(&messages), "MPI_Comm_free");
    check_mpi(MPI_Comm_free(&control), "MPI_Comm_free");
  }

  bool failed() const { return failure_ != nullptr; }

  // Requests are given up all together, when something failed: one moment for them all.
  Clock::time_point end_of_moment() {
    if (end_of_moment_ == Clock::time_point{}) end_of_moment_ = Clock::now() + kMoment;
    return end_of_moment_;
  }

  // Throws the first failure that was announced.
  void check_failure() {
    if (!failure_ && heard_->test()) {
      Exit code{};
      std::memcpy(&code, announced_.data(), sizeof code);
      failure_ = std::make_unique<Error>(code, announced_.data() + sizeof code);
    }
    if (failure_) throw Error(*failure_);
  }

  void announce(Exit code, const std::string& text) {
    if (failure_) return;
    failure_ = std::make_unique<Error>(code, text);
    announced_.fill('\0');
    heard_.reset();
    std::memcpy(announced_.data(), &code, sizeof code);
    std::memcpy(announced_.data() + sizeof code, text.data(),
                std::min(text.size(), announced_.size() - sizeof code - 1));
    for (int peer = 0; peer < world; ++peer) {
      if (peer == rank) continue;
      told_.emplace_back().send(announced_.data(), announced_.size(), peer, kFailure, control);
    }
  }

  MPI_Comm messages = MPI_COMM_NULL, control = MPI_COMM_NULL;
  int rank = 0, world = 1;

 private:
  // Collective; a rank that does not come must not hold the others for ever.
  void duplicate(MPI_Comm* comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, comm, &request), "MPI_Comm_idup");
    Patience patience(timeout_s_, kLongestSleep);
    for (int flag = 0; flag == 0; patience.pause()) {
      check_mpi(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
      if (flag == 0 && patience.expired()) {
        fail(Exit::timeout, "not every rank of the job came to the start of the run");
      }
    }
    check_mpi(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  double timeout_s_;
  Clock::time_point end_of_moment_{};
  // Short enough to leave at once, without a receive that waits for it.
  std::array<char, 1024> announced_{};
  std::unique_ptr<Started> heard_;
  std::list<Started> told_;
  std::unique_ptr<Error> failure_;
};

// ---- Messages ---------------------------------------------------------------------------------------------

class MpiRequest final : public Request {
 public:
  MpiRequest(Lines& lines, size_t bytes) : lines_(lines), bytes_(bytes) {}
  ~MpiRequest() override {
    if (started.active()) started.withdraw(lines_.end_of_moment());
  }
  bool done() override {
    if (!started.active()) return true;
    const auto received = started.test();
    if (!received) {
      lines_.check_failure();
      return false;
    }
    if (started.receives() && *received != bytes_) {
      fail(Exit::transport, "rank " + std::to_string(lines_.rank) + " received " + std::to_string(*received) +
                                " bytes where " + std::to_string(bytes_) + " were expected");
    }
    return true;
  }

  Started started;

 private:
  Lines& lines_;
  size_t bytes_;
};

class MpiLink final : public Link {
 public:
  explicit MpiLink(std::shared_ptr<Lines> lines) : lines_(std::move(lines)) {
    void* value = nullptr;
    int set = 0;
    check_mpi(MPI_Comm_get_attr(lines_->messages, MPI_TAG_UB, &value, &set), "MPI_Comm_get_attr");
    require(set != 0, "MPI tells its largest tag");
    tags_ = std::make_unique<TagPacking>(*static_cast<int*>(value));
  }
  int rank() const override { return lines_->rank; }
  int world() const override { return lines_->world; }

  std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) override {
    auto request = std::make_unique<MpiRequest>(*lines_, bytes.size());
    request->started.send(bytes.data(), bytes.size(), peer, tags_->pack(tag), lines_->messages);
    return request;
  }
  std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) override {
    auto request = std::make_unique<MpiRequest>(*lines_, bytes.size());
    request->started.receive(bytes.data(), bytes.size(), peer, tags_->pack(tag), lines_->messages);
    return request;
  }

 private:
  std::shared_ptr<Lines> lines_;
  std::unique_ptr<TagPacking> tags_;
};

// ---- The control line -------------------------------------------------------------------------------------

// Texts from other ranks with one tag, whose lengths the receiver does not know beforehand.
class Mail {
 public:
  Mail(Lines& lines, int tag) : lines_(lines), tag_(tag), texts_(static_cast<size_t>(lines.world)) {}

  void send(const std::string& text, int peer) {
    sent_.emplace_back().send(text.data(), text.size(), peer, tag_, lines_.control);
  }
  void expect(int peer) { missing_.emplace_back().peer = peer; }

  // True when something moved.
  bool advance() {
    const size_t before = missing_.size() + sent_.size();
    missing_.remove_if([this](Incoming& incoming) { return take(incoming); });
    sent_.remove_if([](Started& sent) { return sent.test().has_value(); });
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
    std::string text;
    Started started;
  };

  bool take(Incoming& incoming) {
    if (!incoming.started.active()) {
      int flag = 0, count = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(incoming.peer, tag_, lines_.control, &flag, &status), "MPI_Iprobe");
      if (flag == 0) return false;
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
      incoming.text.resize(static_cast<size_t>(count));
      incoming.started.receive(incoming.text.data(), incoming.text.size(), incoming.peer, tag_,
                               lines_.control);
    }
    if (!incoming.started.test()) return false;
    text(incoming.peer) = std::move(incoming.text);
    return true;
  }

  Lines& lines_;
  int tag_;
  std::vector<std::optional<std::string>> texts_;
  std::list<Incoming> missing_;
  std::list<Started> sent_;
};

class MpiControl final : public Control {
 public:
  MpiControl(std::shared_ptr<Lines> lines, double timeout_s)
      : lines_(std::move(lines)), timeout_s_(timeout_s) {}
  int rank() const override { return lines_->rank; }
  int world() const override { return lines_->world; }

  std::vector<std::string> all_gather(const std::string& mine) override {
    lines_->check_failure();
    Mail mail(*lines_, next_tag(0));
    exchange(mail, mine);
    complete(mail);
    std::vector<std::string> texts;
    for (auto& text : mail.texts()) texts.emplace_back(std::move(*text));
    return texts;
  }

  std::string broadcast(const std::string& from_rank0) override {
    lines_->check_failure();
    Mail mail(*lines_, next_tag(1));
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
    lines_->check_failure();
    // A word now and then is enough, and must not pile up at a rank that does not listen.
    if (Clock::now() - said_alive_ < seconds(timeout_s_ / 16)) return;
    said_alive_ = Clock::now();
    alive_.remove_if([](Started& sent) { return sent.test().has_value(); });
    each_other([&](int peer) { alive_.emplace_back().send(nullptr, 0, peer, kAlive, lines_->control); });
  }

  void announce_failure(Exit code, const std::string& text) override { lines_->announce(code, text); }

  std::vector<std::optional<std::string>> last_words(const std::string& mine, double timeout_s) override {
    Mail mail(*lines_, kLastWords);
    exchange(mail, mine);
    for (Patience patience(timeout_s, kLongestSleep); !mail.complete() && !patience.expired();) {
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
      lines_->check_failure();
      if (patience.expired()) {
        fail(Exit::timeout, "rank " + std::to_string(rank()) + " waited on the control line for" +
                                mail.missing() + " in call number " + std::to_string(number_ - 1));
      }
      patience.pause();
    }
  }

  bool heard_alive() {
    if (rank() == 0) return false;
    int flag = 0;
    check_mpi(MPI_Iprobe(0, kAlive, lines_->control, &flag, MPI_STATUS_IGNORE), "MPI_Iprobe");
    if (flag == 0) return false;
    check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, 0, kAlive, lines_->control, MPI_STATUS_IGNORE), "MPI_Recv");
    return true;
  }

  std::shared_ptr<Lines> lines_;
  double timeout_s_;
  int64_t number_ = 0;  // of the next collective call
  Clock::time_point said_alive_{};
  std::list<Started> alive_;
};

}  // namespace

void run_mpi(int world, double timeout_s, const std::function<void(Endpoint&)>& body) {
  start_mpi();
  check_world(world);
  const auto lines = std::make_shared<Lines>(timeout_s);
  Endpoint endpoint{.link = std::make_unique<MpiLink>(lines),
                    .control = std::make_unique<MpiControl>(lines, timeout_s)};
  try {
    body(endpoint);
    // A rank that has ended must still hear of another's failure.
    if (!lines->failed()) endpoint.control->barrier();
  } catch (...) {
    const Announcement own = announcement(lines->rank);
    endpoint.control->announce_failure(own.code, own.text);
    throw;
  }
  if (!lines->failed()) lines->close();
}

}  // namespace zp::transport
