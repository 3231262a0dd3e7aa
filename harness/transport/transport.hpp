// How ranks talk. Link is point to point; Transport is collective, built on a Link by an algorithm; Control
// is a separate line for verdicts, start-up and evidence, outside the claims. Every wait has a deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/layout/layout.hpp"
#include "harness/transport/clock.hpp"
#include "kernels/kernels.hpp"

namespace zp {

// Names one collective in logs, tags and error messages. `tensor` is the logical tensor: the unit's index, or
// -1 for a scalar exchange. `name` is for people.
struct Label {
  Purpose purpose = Purpose::gather_params;
  int tensor = -1;
  std::string name;
};

// ---- Link -------------------------------------------------------------------------------------------------

// Carried in the message tag, never in the payload: a message of another collective or tensor never matches.
struct Tag {
  int64_t sequence = 0;  // number of the collective on its transport, from 0
  int tensor = -1;
  Purpose purpose = Purpose::gather_params;  // for the ledger: whose bytes these are
};

// One message in flight.
class Request {
 public:
  Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  virtual ~Request() = default;
  // True once the memory may be used again (sent) or holds the message (received). Never blocks.
  virtual bool done() = 0;
};

// Point to point between ranks. The memory must stay valid until the request is done; the link copies nothing
// aside (one for device memory does: staged.hpp, and is done in the order of its stream; aware.hpp does not).
// Messages with equal tag between the same two ranks arrive in the order sent. A length that differs from
// what was sent throws (transport). A rank that has failed makes done() of its peers throw its failure.
class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) = 0;
  // Whether a rank that asks in vain for what it waits for has thereby given its core away.
  virtual bool yields() const { return false; }
  // Whether a message waits for earlier work of this rank's own device.
  virtual bool is_held_up() const { return false; }
};

// ---- A library's own collectives --------------------------------------------------------------------------

// Over all ranks in rank order, in place, in an order of additions of its own. `lengths` are the ranks'
// slices of the data, one after another. The memory must stay valid until the request is done.
class Native {
 public:
  Native() = default;
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;
  virtual ~Native() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  // Sums of fp32, bf16 (every addition in fp32, rounded to nearest even) or int64: the one of the own slice
  // stands at the data's beginning, the rest is lost.
  virtual std::unique_ptr<Request> reduce_scatter(const View& data, const std::vector<Elements>& lengths) = 0;
  virtual std::unique_ptr<Request> all_reduce(const View& data) = 0;
  virtual std::unique_ptr<Request> all_gather(const View& data, const std::vector<Elements>& lengths) = 0;
};

// ---- Transport --------------------------------------------------------------------------------------------

// Where the slices of a whole begin: world + 1 ascending offsets by place; place p owns [at[p], at[p+1]).
struct Cuts {
  std::vector<Elements> at;
  // A bucket: this sub-range of every slice only (layout/schedule.hpp); empty: the whole slices. A
  // collective's `whole` is still as long as the cuts, its `mine` as the sub-range.
  Range within;
  static Cuts equal(int world, Elements slice);
  int world() const { return static_cast<int>(at.size()) - 1; }
  Range of(int place) const {
    const Range slice{at[static_cast<size_t>(place)], at[static_cast<size_t>(place) + 1]};
    return within.empty() ? slice : Range{slice.begin + within.begin, slice.begin + within.end};
  }
  Elements whole() const { return at.back(); }
  // Elements that a collective with these cuts handles: all slices, or the bucket of each.
  Elements asked() const { return within.empty() ? whole() : within.length() * world(); }
};

// A collective in flight. Destroying a handle does not wait; the buffers it uses know it (Storage::writer,
// readers).
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}
  void wait() {
    if (pending_) pending_->wait();
    pending_.reset();
  }
  // On return it is over; or it is work of a stream, and comes before whatever uses its buffers later.
  void order() {
    if (pending_ && pending_->stream() == nullptr) wait();
  }

 private:
  std::shared_ptr<Pending> pending_;
};

// Sums of a `whole` of fp32 in 64-bit fixed point (kernels::ToFixed): what a collective asks for of it is
// converted into `image`, int64 and at least as long, and summed there. Collectives of one image run one
// after another. No image: a whole travels as it lies.
struct FixedPoint {
  View image;
  int64_t terms = 1;  // that a sum adds up in all
};

// Sum over places of `whole`, divided by `divisor` in fp32 and rounded to mine's type; each place keeps its
// slice in `mine` (which may be its own slice of `whole`). The rest of `whole` is used as scratch: its
// contents are lost, but not those of a whole that has an image. In fixed point (a whole of int64, or an
// image) `mine` is fp32, or int64 and not divided.
struct ReduceScatter {
  View whole, mine;
  Cuts cuts;
  float divisor = 1.0F;
  Label label;
  FixedPoint fixed = {};
};

// Every place's `mine` in its slice of `whole` (mine may lie there already).
struct AllGather {
  View mine, whole;
  Cuts cuts;
  Label label;
};

// ReduceScatter into the own slice of `whole`, then AllGather: the same bits and bytes as the two calls.
struct AllReduce {
  View whole;
  Cuts cuts;
  float divisor = 1.0F;
  Label label;
  FixedPoint fixed = {};
  View sums = {};  // int64: reduced in the whole's stead, used as scratch
};

// In which type contributions are sent: a gather's second half of an all-reduce moves the whole's.
Type wire_of(const ReduceScatter& call);
Type wire_of(const AllReduce& call);

// Moves gradients and parameters between ranks. Every call is collective: all ranks make the same calls in
// the same order. Calls return at once; several may be in flight; they progress while any of them is waited
// for.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int place() const = 0;
  virtual int world() const = 0;
  virtual Handle reduce_scatter(const ReduceScatter& call) = 0;
  virtual Handle all_gather(const AllGather& call) = 0;
  virtual Handle all_reduce(const AllReduce& call) = 0;
  // Moves what can be moved of the collectives in flight, without waiting. Kernels call it between tiles, so
  // that transfers progress beside them on the rank's own thread.
  virtual void poll() {}
};

// ---- Control ----------------------------------------------------------------------------------------------

// A line of its own for verdicts, options, evidence and failures. Collective calls, each with the deadline.
// Never metered. A waiting rank sleeps between polls.
class Control {
 public:
  Control() = default;
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  virtual ~Control() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  // Every rank's text, by rank, on every rank.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  // Rank 0's text on every rank.
  virtual std::string broadcast(const std::string& from_rank0) = 0;
  // Rank 0 says that it is still at work: restarts the deadline of every rank that waits in a collective
  // call.
  virtual void alive() = 0;
  // Throws the failure that another rank has announced, where one has. Never blocks.
  virtual void check() = 0;
  // Tells every other rank, without waiting, that this one has failed; their waits (links and control) then
  // throw Error with this code and text. The first failure wins.
  virtual void announce_failure(Exit code, const std::string& text) = 0;
  // After a failure: every rank that still answers within `timeout_s` gives its text, the others none. Works
  // when failures were announced, and is the last call on a control line.
  virtual std::vector<std::optional<std::string>> last_words(const std::string& mine, double timeout_s) = 0;
  void barrier() { all_gather(""); }
};

// ---- Algorithms and the table -----------------------------------------------------------------------------

// [Note: messages and additions of a collective]
// L_q: bytes of place q's slice; a range of places is contiguous in the whole. pieces(x) = ceil(x / kPiece),
// messages(x) = ceil(x / kLongestMessage), both 0 for x = 0: an empty range is not sent. Of N, place p sends
//
//   - halving reduce-scatter, for h = N/2, N/4 … 1: to place p^h the h slices around it (those places q with
//     q/h = (p^h)/h), x bytes in pieces(x) messages;
//   - halving all-gather, for h = 1, 2 … N/2: to place p^h the h slices around p, x bytes in messages(x);
//   - direct reduce-scatter: to every other place q its slice, L_q bytes in pieces(L_q) messages;
//   - direct all-gather: to every other place the own slice, L_p bytes in messages(L_p);
//   - ring reduce-scatter: to place p+1 the slices p-1, p-2 … p+1, L_q bytes in pieces(L_q) each;
//   - ring all-gather: to place p+1 the slices p, p-1 … p+2, L_q bytes in messages(L_q) each;
//   - all-reduce: both, the reduce-scatter first.
//
// and nothing at N = 1. With equal slices that is (N-1)·L bytes a pass: h·L to p^h (halving), L to each
// (direct), all to the successor (ring). Additions are Fold calls, one per range of a received piece:
//
//   - halving, for h = N/2 … 1: pieces(x) calls of two inputs, x bytes being the h slices around p;
//   - direct: pieces(L_p) calls of N inputs;
//   - ring, for q = p-2, p-3 … p: pieces(L_q) calls of two inputs; the sum of slice q begins at place q+1 and
//     takes places in order, q last, rounded to the whole's type at every hop;
//   - N = 1: one call of one input ("divide"); none when divisor is 1 and `mine` lies in `whole`.
//
// With equal slices (N-1)·L bytes are added whatever the algorithm; an empty own slice adds nothing (direct).
// The bucket of h slices is h runs, not one: each is rounded up to messages and pieces by itself.

// Design 3.4: halving where world is a power of two and gradients travel in fp32 or int64, otherwise direct.
Algorithm default_algorithm(int world, Type wire);

struct CollectiveOptions {
  Algorithm algorithm = Algorithm::direct;
  Places places;
  double timeout_s = 60.0;
  // On which the link and the kernels use memory: what they were given is over in the order of this stream.
  // Null: the host does, and it is over when they say so.
  Stream* stream = nullptr;
  Route route = Route::staged;      // of messages between devices' memories
  TransportClock* clock = nullptr;  // null: nobody measures
};

inline constexpr Bytes kPiece{256 * 1024};  // one receive piece; longest message of a reduce-scatter
inline constexpr int kPiecesPerPeer = 2;
// Longest message of a gather, which needs no pieces. Short enough that a rank which polls for it soon sees
// it move: one that sees nothing move sleeps, and some libraries move long messages only while they are
// polled.
inline constexpr Bytes kLongestMessage{256 * 1024};

// Collectives over `link` by an algorithm. Receive pieces (Category::transport: kPiecesPerPeer·kPiece per
// active peer: 1 peer for halving and ring, world-1 for direct, none at world 1) are acquired from `device`
// here and held until the end; additions run through `kernels`. Throws (unavailable) for halving where world
// is not a power of two. link, device and kernels must outlive the transport.
std::unique_ptr<Transport> make_collectives(Link& link, Device& device, kernels::Table& kernels,
                                            const CollectiveOptions& options);

// Collectives of a library. What they send is not known, and bits are claimed of sums only that no order
// changes: in fixed point, or of numbers that their type adds exactly. Whole slices, places in rank order;
// anything else throws (unavailable), as does memory that is not the host's. native and kernels must outlive
// the transport.
std::unique_ptr<Transport> make_native(Native& native, kernels::Table& kernels,
                                       const CollectiveOptions& options);

// One rank's lines.
struct Endpoint {
  std::unique_ptr<Link> link;
  std::unique_ptr<Control> control;
  int first_of_node = 0;                     // the lowest rank that shares this one's memory
  std::unique_ptr<Native> native = nullptr;  // none where the transport is no library
};

// A row of the table of transports: how `world` ranks come to be and talk.
struct TransportRow {
  std::string_view name;  // "threads", "mpi", "nccl"
  // Whether messages go from one device's memory to another's by a library of the device's own (carrier.hpp);
  // the link and the library of an endpoint then carry nothing.
  bool carried = false;
  // Runs `body` once per rank of this process with its endpoint, and returns when all have ended. An
  // exception of a body is announced to the other ranks; the first one is rethrown after all bodies ended.
  // threads: world ranks as threads of this process. mpi: this process is one rank of MPI_COMM_WORLD, and
  // `world` must be its size. nccl: as mpi under a launcher, otherwise as threads.
  void (*run)(int world, double timeout_s, const std::function<void(Endpoint&)>& body);
};
std::span<const TransportRow> transports();
// Throws (usage) where there is none of that name.
const TransportRow& transport_named(std::string_view name);

// World size of the MPI launcher that started this process (Open MPI, MPICH/Hydra, PMIx or Slurm step), from
// its environment; 0 when there is none. A Slurm step of one task counts as none: a shell in an allocation
// looks the same.
int launched_world();

// The MPI library's own name and version, one line; may be asked for before MPI starts.
std::string mpi_version();

// Whether the MPI library says that it takes the memory of GPUs; none where it does not say. Starts MPI.
std::optional<bool> mpi_says_gpu_aware();

// Ends this process with `code`, after an orderly end of MPI where it was started. Call it last, on every
// rank. With a code other than pass it waits at most a few seconds for ranks that do not come; `unsaid` is
// then written to standard error, since whoever was to say it may be one of them.
[[noreturn]] void end_processes(Exit code, const std::string& unsaid = "");

}  // namespace zp
