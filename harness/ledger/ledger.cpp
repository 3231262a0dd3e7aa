// What one rank did, written down as it happens.
#include "harness/ledger/ledger.hpp"

#include <algorithm>

namespace zp {
namespace {

constexpr size_t kRecentEntries = 4096;  // enough to compare the end of every rank's log after a failure

}  // namespace

void Ledger::begin_step(int step) {
  now_ = {};
  now_.step = step;
  step_peak_ = held_;
  taken_most_ = taken_;
  backward_seen_ = false;
  begin({});
}

StepEvidence Ledger::end_step() {
  end_stretch();
  now_.held[Point::after_init] = after_init_;
  now_.held[Point::step_peak] = to_map(step_peak_);
  if (backward_seen_) now_.held[Point::backward_peak] = to_map(backward_peak_);
  return std::move(now_);
}

void Ledger::acquire(Category category, Bytes bytes) {
  Acquired& acquired = now_.acquired[category];
  acquired.calls += 1;
  acquired.bytes += bytes;
  hold(category, bytes.n);
  taken_ += grains(bytes);
  taken_most_ = std::max(taken_most_, taken_);
}

void Ledger::give_back(Category category, Bytes bytes) {
  hold(category, -bytes.n);
  taken_ = taken_ - grains(bytes);
}

void Ledger::hold(Category category, int64_t bytes) {
  const auto at = static_cast<size_t>(category);
  held_.bytes[at] += bytes;
  held_.total += bytes;
  stretch_.most.bytes[at] = std::max(stretch_.most.bytes[at], held_.bytes[at]);
  if (held_.total > step_peak_.total) step_peak_ = held_;
  if (stretch_.point == Point::backward_most && held_.total > backward_peak_.total) backward_peak_ = held_;
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

void Ledger::enter_use(int micro_step, const Use& use) {
  end_stretch();
  const bool backward = use.pass == Pass::backward;
  Stretch stretch;
  stretch.point = backward ? Point::backward_most : Point::forward_most;
  stretch.micro_step = micro_step;
  stretch.unit = use.unit;
  begin(stretch);
  if (!backward) return;
  // The peak is one over all backward passes of the step.
  if (!backward_seen_ || held_.total > backward_peak_.total) backward_peak_ = held_;
  backward_seen_ = true;
}

void Ledger::leave_uses() {
  end_stretch();
  begin({});
}

void Ledger::begin(const Stretch& stretch) {
  stretch_ = stretch;
  stretch_.most = held_;
}

void Ledger::end_stretch() {
  const HeldMap most = to_map(stretch_.most);
  HeldMap& of_point = now_.held[stretch_.point];
  for (const auto& [category, bytes] : most) of_point[category] = std::max(of_point[category], bytes);
  if (stretch_.unit < 0) return;
  now_.held_in_use.push_back({.micro_step = stretch_.micro_step,
                              .unit = stretch_.unit,
                              .backward = stretch_.point == Point::backward_most,
                              .most = most,
                              .after = to_map(held_)});
}

HeldMap Ledger::to_map(const Snapshot& snapshot) {
  HeldMap map;
  for (const Category category : kCategories) {
    const int64_t bytes = snapshot.bytes[static_cast<size_t>(category)];
    if (bytes != 0) map[category] = {bytes};
  }
  return map;
}

}  // namespace zp
