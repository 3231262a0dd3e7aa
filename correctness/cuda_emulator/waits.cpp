// What a thread asked for, moment by moment, and vector clocks over it. See waits.hpp.
#include "correctness/cuda_emulator/waits.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "correctness/cuda_emulator/fault.hpp"

namespace zp::emulated {

namespace {

constexpr int kMostStreams = 8;

enum class What {
  stream_works,
  record,
  stream_waits,
  host_waits_for_record,
  host_waits_for_stream,
  host_works
};

struct Moment {
  What what;
  int stream = 0;  // by order of appearance
  int record = 0;  // the moment that is waited for
  const Ticket* ticket = nullptr;
  int wait = 0;  // its number
};

struct LeftOut {  // types of the emulator's own, as everywhere in containers here
  int wait;
};

struct Made {
  bool yes = true;  // as what is no wait, number 0, has it
};

// How much of each stream's work has happened.
struct Clock {
  std::array<int, kMostStreams> of{};
  void join(const Clock& other) {
    for (int i = 0; i < kMostStreams; ++i) of[i] = std::max(of[i], other.of[i]);
  }
  bool operator==(const Clock& other) const { return of == other.of; }
};

struct Known {
  const Stream* stream;
};

struct Watch {
  std::vector<LeftOut> left_out;
  std::vector<Moment> moments;
  std::vector<Known> streams;
  int waits = 0;
  std::vector<Made> needed;  // by number, once it is asked for
};

thread_local Watch watch;
constinit thread_local bool watching = false;

int index_of(const Stream& stream) {
  for (std::size_t i = 0; i < watch.streams.size(); ++i) {
    if (watch.streams[i].stream == &stream) return static_cast<int>(i);
  }
  if (watch.streams.size() == kMostStreams) fault("waits of more than %d streams are watched", kMostStreams);
  watch.streams.push_back({&stream});
  return static_cast<int>(watch.streams.size()) - 1;
}

// The newest one, should a ticket lie where another lay. -1: from before the watch, over what it orders
// nothing more is known.
int record_of(const Ticket& ticket) {
  for (auto at = static_cast<int>(watch.moments.size()) - 1; at >= 0; --at) {
    if (watch.moments[at].what == What::record && watch.moments[at].ticket == &ticket) return at;
  }
  return -1;
}

bool wait_left_out(Moment moment) {
  moment.wait = ++watch.waits;
  watch.moments.push_back(moment);
  return std::any_of(watch.left_out.begin(), watch.left_out.end(),
                     [&](const LeftOut& one) { return one.wait == moment.wait; });
}

// What comes before each moment in which a stream or the host touches memory; `made` tells by number which
// waits are.
std::vector<Clock> order(const std::vector<Made>& made) {
  Clock host;
  std::array<Clock, kMostStreams> streams;
  std::vector<Clock> records(watch.moments.size());
  std::vector<Clock> before;
  for (std::size_t at = 0; at < watch.moments.size(); ++at) {
    const Moment& moment = watch.moments[at];
    Clock& stream = streams[moment.stream];
    const bool is_made = made[moment.wait].yes;
    switch (moment.what) {
      case What::stream_works:
        stream.join(host);
        ++stream.of[moment.stream];
        before.push_back(stream);
        break;
      case What::record:
        stream.join(host);
        records[at] = stream;
        break;
      case What::stream_waits:
        stream.join(host);
        if (is_made) stream.join(records[moment.record]);
        break;
      case What::host_waits_for_record:
        if (is_made) host.join(records[moment.record]);
        break;
      case What::host_waits_for_stream:
        if (is_made) host.join(stream);
        before.push_back(host);
        break;
      case What::host_works: before.push_back(host); break;
    }
  }
  return before;
}

}  // namespace

void watch_waits(const int* left_out, int count) {
  watch = {};
  for (int i = 0; i < count; ++i) watch.left_out.push_back({left_out[i]});
  watching = true;
}

void host_touches_memory() {
  if (watching) watch.moments.push_back({.what = What::host_works});
}

void watch_no_more() { watching = false; }

int waits_asked_for() { return watch.waits; }

bool is_needed(int wait) {
  if (watch.needed.empty()) {
    std::vector<Made>& made = watch.needed;
    made.resize(watch.waits + 1);
    const std::vector<Clock> right = order(made);
    for (int number = 1; number <= watch.waits; ++number) {
      made[number].yes = false;
      if (order(made) != right) made[number].yes = true;
    }
  }
  return watch.needed[wait].yes;
}

void note_work(const Stream& stream) {
  if (watching) watch.moments.push_back({.what = What::stream_works, .stream = index_of(stream)});
}

void note_record(const Stream& stream, const Ticket& ticket) {
  if (!watching) return;
  watch.moments.push_back({.what = What::record, .stream = index_of(stream), .ticket = &ticket});
}

bool waits_are_watched() { return watching; }

bool stream_wait_left_out(const Stream& stream, const Ticket& ticket) {
  const int record = watching ? record_of(ticket) : -1;
  return record >= 0 &&
         wait_left_out({.what = What::stream_waits, .stream = index_of(stream), .record = record});
}

bool host_wait_left_out(const Ticket& ticket) {
  const int record = watching ? record_of(ticket) : -1;
  return record >= 0 && wait_left_out({.what = What::host_waits_for_record, .record = record});
}

bool host_wait_left_out(const Stream& stream) {
  return watching && wait_left_out({.what = What::host_waits_for_stream, .stream = index_of(stream)});
}

}  // namespace zp::emulated
