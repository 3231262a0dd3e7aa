// The handshake of [Note: taking memory back], and failures on the control line.
#include "harness/transport/mpi_job.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "harness/transport/mpi_process.hpp"

namespace zp::transport {
namespace {

// How long a rank that fails waits for others to look; all its messages share one moment.
constexpr std::chrono::seconds kMoment{2};
constexpr std::chrono::microseconds kBetweenLooks{200};
// A look costs several calls that find nothing, and each of them may give the core away.
constexpr std::chrono::milliseconds kBetweenChecks{5};
// Reading the clock costs too.
constexpr int kCallsBetweenChecks = 16;

}  // namespace

Job::Job(double timeout_s)
    : messages(timeout_s),
      control(timeout_s),
      collectives(timeout_s),
      peers_(static_cast<size_t>(control.world())) {
  heard_ = control.receive(announced_.data(), announced_.size(), kAnyRank, kFailure);
}

void Job::send(Transit& transit, int to, int tag, std::span<const std::byte> bytes) {
  transit.direction = Direction::send;
  transit.peer = to;
  begin(transit, messages.send(bytes.data(), bytes.size(), to, tag));
}

void Job::receive(Transit& transit, int from, int tag, std::span<std::byte> bytes) {
  transit.direction = Direction::receive;
  transit.peer = from;
  if (peer(from).withdraws) return;
  begin(transit, messages.receive(bytes.data(), bytes.size(), from, tag));
}

void Job::begin(Transit& transit, Posted posted) {
  transit.posted = std::move(posted);
  transit.outcome = {};
  transit.asked_at = polls_;
  active_.push_back(&transit);
}

void Job::advance(Transit& transit) {
  // What was found since this message was last asked after is in its outcome already.
  if (transit.active() && transit.asked_at == polls_) poll();
  transit.asked_at = polls_;
}

void Job::poll() {
  if (mpi_given_up()) return;
  ++polls_;
  glance_.clear();
  for (Transit* transit : active_) glance_.add(transit->posted);
  const std::vector<Posted::Outcome>& outcomes = glance_.look();
  for (size_t i = 0; i < outcomes.size(); ++i) active_[i]->outcome = outcomes[i];
  std::erase_if(active_, [](const Transit* transit) { return !transit->active(); });
}

std::vector<Transit*> Job::receives_from(int rank) const {
  std::vector<Transit*> receives;
  for (Transit* transit : active_) {
    if (transit->direction == Direction::receive && transit->peer == rank) receives.push_back(transit);
  }
  return receives;
}

bool Job::memory_is_safe(const Transit& transit) {
  return !transit.active() || (transit.direction == Direction::send && peer(transit.peer).gone);
}

void Job::withdraw(Transit& transit) noexcept {
  if (!transit.active()) return;
  if (mpi_given_up()) {
    std::erase(active_, &transit);
    return;
  }
  try {
    poll();
    if (!transit.active()) return;
    if (moment_ends_ == Clock::time_point{}) moment_ends_ = Clock::now() + kMoment;
    if (transit.direction == Direction::receive) {
      transit.posted.cancel();
    } else if (!std::exchange(peer(transit.peer).told, true)) {
      say(transit.peer, kWithdrawal);
    }
    while (!memory_is_safe(transit)) {
      if (Clock::now() >= moment_ends_) {
        give_up_mpi(transit.peer);
        break;
      }
      std::this_thread::sleep_for(kBetweenLooks);
      look();
      poll();
    }
  } catch (const std::exception&) {
    give_up_mpi();
  }
  std::erase(active_, &transit);
}

void Job::look() {
  if (mpi_given_up()) return;
  looked_ = Clock::now();
  if (!failure_ && heard_.test().state == Posted::State::complete) {
    Exit code{};
    std::memcpy(&code, announced_.data(), sizeof code);
    failure_ = std::make_unique<Error>(code, announced_.data() + sizeof code);
  }
  for (int from = 0; hear(&from, kWithdrawal);) {
    peer(from).withdraws = true;
    for (Transit* transit : receives_from(from)) transit->posted.cancel();
  }
  for (int rank = 0; rank < world(); ++rank) {
    Peer& other = peer(rank);
    if (!other.withdraws || other.promised) continue;
    if (!receives_from(rank).empty()) poll();
    if (receives_from(rank).empty()) {
      other.promised = true;
      say(rank, kGone);
    }
  }
  for (int from = 0; hear(&from, kGone);) peer(from).gone = true;
}

void Job::check_failure() {
  if (failure_) throw Error(*failure_);
  if (mpi_given_up()) fail(Exit::transport, "MPI was given up after a failure");
  if (++unchecked_ < kCallsBetweenChecks) return;
  unchecked_ = 0;
  if (Clock::now() - looked_ < kBetweenChecks) return;
  look();
  if (failure_) throw Error(*failure_);
}

void Job::outlast(Posted& collective) noexcept {
  if (mpi_given_up()) return;
  try {
    if (moment_ends_ == Clock::time_point{}) moment_ends_ = Clock::now() + kMoment;
    while (collective.test().state == Posted::State::active) {
      if (Clock::now() >= moment_ends_) {
        give_up_mpi();
        return;
      }
      std::this_thread::sleep_for(kBetweenLooks);
      look();
    }
  } catch (const std::exception&) {
    give_up_mpi();
  }
}

void Job::announce(Exit code, const std::string& text) {
  if (failure_) return;
  failure_ = std::make_unique<Error>(code, text);
  // The memory of the receive that listens for failures is not needed any more, but is still MPI's.
  std::string message(announced_.size(), '\0');
  std::memcpy(message.data(), &code, sizeof code);
  text.copy(message.data() + sizeof code, message.size() - sizeof code - 1);
  for (int to = 0; to < world(); ++to) {
    if (to == rank()) continue;
    Kept& told = kept.emplace_back(Kept{.text = message, .posted = {}});
    told.posted = control.send(told.text.data(), told.text.size(), to, kFailure);
  }
}

void Job::say(int to, int tag) { said_.push_back(control.send(nullptr, 0, to, tag)); }

bool Job::hear(int* from, int tag) {
  const auto arrival = control.arrival(kAnyRank, tag);
  if (!arrival) return false;
  *from = arrival->rank;
  Posted word = control.receive(nullptr, 0, arrival->rank, tag);
  while (word.test().state == Posted::State::active) std::this_thread::yield();
  return true;
}

void Job::close() {
  heard_.cancel();
  while (heard_.test().state == Posted::State::active) std::this_thread::yield();
  messages.close();
  control.close();
  collectives.close();
}

void Job::leave() {
  for (int to = 0; to < world(); ++to) {
    if (to == rank() || !receives_from(to).empty() || std::exchange(peer(to).promised, true)) continue;
    say(to, kGone);
  }
}

}  // namespace zp::transport
