// What one rank did, written down as it happens.
#include "harness/ledger/ledger.hpp"

namespace zp {
namespace {

constexpr size_t kRecentEntries = 4096;  // enough to compare the end of every rank's log after a failure

}  // namespace

void Ledger::begin_step(int step) {
  now_ = {};
  now_.step = step;
  step_peak_ = held_;
  backward_seen_ = false;
}

StepEvidence Ledger::end_step() {
  now_.held[Point::after_init] = after_init_;
  now_.held[Point::step_peak] = to_map(step_peak_);
  if (backward_seen_) now_.held[Point::backward_peak] = to_map(backward_peak_);
  return std::move(now_);
}

void Ledger::hold(Category category, int64_t bytes) {
  held_.bytes[static_cast<size_t>(category)] += bytes;
  held_.total += bytes;
  if (held_.total > step_peak_.total) step_peak_ = held_;
  if (in_backward_ && held_.total > backward_peak_.total) backward_peak_ = held_;
}

void Ledger::send(Purpose purpose, int peer, Bytes bytes) {
  Sent& sent = now_.sent[purpose][peer];
  sent.messages += 1;
  sent.bytes += bytes;
}

void Ledger::ask(Operation operation, const Label& label, Type type, Elements whole) {
  Asked& asked = now_.asked[label.purpose][operation];
  asked.calls += 1;
  asked.whole += whole * size_of(type);
  const LogEntry entry{.sequence = sequence_++,
                       .operation = operation,
                       .purpose = label.purpose,
                       .type = type,
                       .count = whole,
                       .tensor = label.tensor};
  now_.log.push_back(entry);
  if (recent_.size() == kRecentEntries) recent_.erase(recent_.begin(), recent_.begin() + kRecentEntries / 2);
  recent_.push_back(entry);
}

void Ledger::work(std::string_view kernel, Elements elements) {
  Work& work = now_.work[std::string(kernel)];
  work.calls += 1;
  work.elements += elements;
}

void Ledger::mark(Point point) {
  if (point == Point::after_init) {
    after_init_ = to_map(held_);
  } else {
    now_.held[point] = to_map(held_);
  }
}

void Ledger::enter_backward() {
  // The peak is one over all backward passes of the step.
  if (!backward_seen_ || held_.total > backward_peak_.total) backward_peak_ = held_;
  in_backward_ = backward_seen_ = true;
}

void Ledger::leave_backward() { in_backward_ = false; }

HeldMap Ledger::to_map(const Snapshot& snapshot) {
  HeldMap map;
  for (const Category category : kCategories) {
    const int64_t bytes = snapshot.bytes[static_cast<size_t>(category)];
    if (bytes != 0) map[category] = {bytes};
  }
  return map;
}

}  // namespace zp
