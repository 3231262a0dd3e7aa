// What one rank did, as plain data: no live objects, nothing judged. Written by the ledger (metered
// decorators and the step loop), read by harness/claim. One Evidence per rank and stage.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/quantities.hpp"
#include "harness/base/type.hpp"
#include "harness/base/vocabulary.hpp"
#include "kernels/hash.hpp"

namespace zp {

struct Work {
  int64_t calls = 0;
  Elements elements;
  friend bool operator==(const Work&, const Work&) = default;
};

// Messages to one peer.
struct Sent {
  int64_t messages = 0;
  Bytes bytes;
  friend bool operator==(const Sent&, const Sent&) = default;
};

// Collectives of one kind asked for: how often, and the whole's bytes (all slices) in total.
struct Asked {
  int64_t calls = 0;
  Bytes whole;
  friend bool operator==(const Asked&, const Asked&) = default;
};

using HeldMap = std::map<Category, Bytes>;  // categories with nothing held are absent

// Buffers of one category that were acquired: how often, and their bytes in total.
struct Acquired {
  int64_t calls = 0;
  Bytes bytes;
  friend bool operator==(const Acquired&, const Acquired&) = default;
};

// Memory while one unit was used: each category's largest from before the use's first hook to after its last
// one, and what was held then.
struct UseHeld {
  int micro_step = 0;
  int unit = 0;
  bool backward = false;
  HeldMap most, after;
};

// One line of the collective log; equal on all ranks.
struct LogEntry {
  int64_t sequence = 0;
  Operation operation = Operation::all_gather;
  Purpose purpose = Purpose::gather_params;
  Type type = Type::f32;
  Elements count;   // of the whole
  int tensor = -1;  // logical tensor: unit, or -1
  friend bool operator==(const LogEntry&, const LogEntry&) = default;
};

// Hash of the part of one tensor's state that this rank answers for.
struct TensorHash {
  int tensor = 0;  // index over the whole model
  HashKind kind = HashKind::param;
  HashSum hash;
};

// Weights as a kernel was about to read them: the whole of a unit, on this rank.
struct UseHash {
  int micro_step = 0;
  int unit = 0;  // the one in use
  int read = 0;  // the one whose weights these are: itself, or the one that it borrows
  bool backward = false;
  HashSum hash;
};

// Padding of one unit that is not zero: how many elements of what this rank holds.
struct PaddingWritten {
  HashKind kind = HashKind::param;
  int unit = 0;
  Elements elements;
};

// Of a rank whose device has memory of its own: what the device says of its pool, beside what the ledger's
// buffers take of it, each a whole number of grains; and what lies beside the pool.
struct DeviceEvidence {
  Bytes grain;              // 0: the device says nothing that could be compared
  Bytes used, used_most;    // by the device: after the step, and at most while it lasted
  Bytes taken, taken_most;  // by the ledger, likewise
  Bytes reserved_most;      // by the pool, from the device
  Bytes pinned;             // of the host, for messages, after the step: kept to the end once it was needed
  // Of the whole device, hence none where other ranks use it too: what was in use before the pool held
  // anything (the context), what the carrier of messages took (a library, such as NCCL), and what else came
  // beside the pool.
  std::optional<Bytes> context = {}, carrier = {}, rest = {};
};

// How much of a step the evidence holds: everything; or what meters count by themselves, the loss and the
// norm, with hashes of the state that the step left, or without. With the last two nobody looks at a step
// while it runs.
enum class Inspection { full, after_step, meters_only };

struct StepEvidence {
  int step = 0;
  // bytes
  std::map<Purpose, std::map<int, Sent>> sent;  // by purpose and peer rank
  std::map<Purpose, std::map<Operation, Asked>> asked;
  std::vector<LogEntry> log;
  // memory
  std::map<Point, HeldMap> held;
  std::vector<UseHeld> held_in_use;  // every use, in order
  std::map<Category, Acquired> acquired;
  std::optional<DeviceEvidence> device;  // none: ranks compute in the host's memory
  // work
  std::map<std::string, Work> work;  // by kernel
  // bits
  std::vector<UseHash> used;               // params as used
  std::vector<TensorHash> grads;           // own slice, reduced, before the optimizer
  std::vector<TensorHash> state;           // own slice, after the step: param, master, m, v
  std::vector<TensorHash> replica;         // whole replicas held after the step (params)
  std::vector<HashSum> micro_batch_grads;  // by micro-step of this rank, whole model
  std::vector<PaddingWritten> padding;     // where padding was not all zero bits; empty where it was
  uint64_t norm_bits = 0;                  // fp64 bits of the gradient norm
  uint64_t loss_bits = 0;                  // fp64 bits of the step's loss
  double time_s = 0.0;                     // wall time of the step, inspection excluded
  // Of it, what transfers took of the rank's thread. Counted where nobody looked at the step while it ran,
  // and on the host only: a device's streams have no such thread.
  bool transfers_timed = false;
  double exposed_s = 0.0, hidden_s = 0.0;
};

struct Evidence {
  std::string stage;
  int rank = 0, place = 0, world = 1;
  std::vector<StepEvidence> steps;
};

// ---- For harness/base/archive.hpp

template <class A>
void archive(A& a, Elements& e) {
  a(e.n);
}
template <class A>
void archive(A& a, Bytes& b) {
  a(b.n);
}
template <class A>
void archive(A& a, Work& w) {
  a(w.calls, w.elements);
}
template <class A>
void archive(A& a, Sent& s) {
  a(s.messages, s.bytes);
}
template <class A>
void archive(A& a, Asked& s) {
  a(s.calls, s.whole);
}
template <class A>
void archive(A& a, LogEntry& e) {
  a(e.sequence, e.operation, e.purpose, e.type, e.count, e.tensor);
}
template <class A>
void archive(A& a, TensorHash& h) {
  a(h.tensor, h.kind, h.hash);
}
template <class A>
void archive(A& a, UseHash& h) {
  a(h.micro_step, h.unit, h.read, h.backward, h.hash);
}
template <class A>
void archive(A& a, Acquired& s) {
  a(s.calls, s.bytes);
}
template <class A>
void archive(A& a, UseHeld& h) {
  a(h.micro_step, h.unit, h.backward, h.most, h.after);
}
template <class A>
void archive(A& a, PaddingWritten& p) {
  a(p.kind, p.unit, p.elements);
}
template <class A>
void archive(A& a, DeviceEvidence& d) {
  a(d.grain, d.used, d.used_most, d.taken, d.taken_most, d.reserved_most, d.pinned, d.context, d.carrier,
    d.rest);
}
template <class A>
void archive(A& a, StepEvidence& s) {
  a(s.step, s.sent, s.asked, s.log, s.held, s.held_in_use, s.acquired, s.device, s.work, s.used, s.grads,
    s.state, s.replica, s.micro_batch_grads, s.padding, s.norm_bits, s.loss_bits, s.time_s, s.transfers_timed,
    s.exposed_s, s.hidden_s);
}
template <class A>
void archive(A& a, Evidence& e) {
  a(e.stage, e.rank, e.place, e.world, e.steps);
}

}  // namespace zp
