// Non-blocking MPI calls, one each.
#include "harness/transport/mpi_line.hpp"

#include <mpi.h>

#include <climits>
#include <cstring>

#include "harness/transport/mpi_process.hpp"
#include "harness/transport/patience.hpp"
#include "harness/transport/transport.hpp"

namespace zp::transport {
namespace {

int count_of(size_t bytes) {
  require(bytes <= size_t{INT_MAX}, "an MPI message is shorter than 2 GiB");
  return static_cast<int>(bytes);
}

static_assert(sizeof(MPI_Request) <= sizeof(void*), "MPI's handles are numbers or pointers");

MPI_Request load(const std::array<std::byte, sizeof(void*)>& handle) {
  MPI_Request request;
  std::memcpy(&request, handle.data(), sizeof(MPI_Request));
  return request;
}

std::array<std::byte, sizeof(void*)> stored(MPI_Request request) {
  std::array<std::byte, sizeof(void*)> handle{};
  std::memcpy(handle.data(), &request, sizeof(MPI_Request));
  return handle;
}

// Of a message that has ended.
Posted::Outcome outcome_of(const MPI_Status& status) {
  int cancelled = 0, count = 0;
  check_mpi(MPI_Test_cancelled(&status, &cancelled), "MPI_Test_cancelled");
  if (cancelled != 0) return {.state = Posted::State::cancelled};
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  return {.state = Posted::State::complete, .bytes = static_cast<size_t>(count)};
}

}  // namespace

Posted::Outcome Posted::test() {
  require(active_, "a message is tested until it has ended");
  MPI_Request request = load(handle_);
  int flag = 0;
  MPI_Status status;
  check_mpi(MPI_Test(&request, &flag, &status), "MPI_Test");
  if (flag == 0) return {};
  active_ = false;
  return lists_ ? Outcome{.state = State::complete} : outcome_of(status);
}

void Posted::cancel() {
  MPI_Request request = load(handle_);
  check_mpi(MPI_Cancel(&request), "MPI_Cancel");
}

struct Glance::Room {
  std::vector<Posted*> posted;
  std::vector<MPI_Request> requests;
  std::vector<int> ended;
  std::vector<MPI_Status> statuses;
  std::vector<Posted::Outcome> outcomes;
};

Glance::Glance() : room_(std::make_unique<Room>()) {}
Glance::~Glance() = default;

void Glance::clear() {
  room_->posted.clear();
  room_->requests.clear();
  room_->outcomes.clear();
}

void Glance::add(Posted& posted) {
  require(posted.active_, "a message is tested until it has ended");
  room_->posted.push_back(&posted);
  room_->requests.push_back(load(posted.handle_));
}

const std::vector<Posted::Outcome>& Glance::look() {
  Room& room = *room_;
  if (room.posted.empty()) return room.outcomes;
  room.ended.resize(room.posted.size());
  room.statuses.resize(room.posted.size());
  room.outcomes.assign(room.posted.size(), {});
  int count = 0;
  check_mpi(MPI_Testsome(static_cast<int>(room.posted.size()), room.requests.data(), &count,
                         room.ended.data(), room.statuses.data()),
            "MPI_Testsome");
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const auto which = static_cast<size_t>(room.ended[i]);
    room.posted[which]->active_ = false;
    room.outcomes[which] = outcome_of(room.statuses[i]);
  }
  return room.outcomes;
}

struct Line::Communicator {
  MPI_Comm handle = MPI_COMM_NULL;
  MPI_Op bf16_sum = MPI_OP_NULL;  // made when it is first asked for
};

Line::Line(double timeout_s) : communicator_(std::make_unique<Communicator>()) {
  MPI_Comm* comm = &communicator_->handle;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, comm, &request), "MPI_Comm_idup");
  Patience patience(timeout_s, kLongestSleep);
  for (int flag = 0; flag == 0; patience.pause()) {
    check_mpi(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    if (flag == 0 && patience.expired()) {
      fail(Exit::timeout, "not every rank of the job came to the start of the run");
    }
  }
  check_mpi(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(*comm, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(*comm, &world_), "MPI_Comm_size");
}

Line::~Line() = default;

void Line::close() {
  MPI_Op& sum = communicator_->bf16_sum;
  if (sum != MPI_OP_NULL) check_mpi(MPI_Op_free(&sum), "MPI_Op_free");
  check_mpi(MPI_Comm_free(&communicator_->handle), "MPI_Comm_free");
}

int Line::largest_tag() const {
  void* value = nullptr;
  int set = 0;
  check_mpi(MPI_Comm_get_attr(communicator_->handle, MPI_TAG_UB, &value, &set), "MPI_Comm_get_attr");
  require(set != 0, "MPI tells its largest tag");
  return *static_cast<int*>(value);
}

Posted Line::send(const void* data, size_t bytes, int peer, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(data, count_of(bytes), MPI_BYTE, peer, tag, communicator_->handle, &request),
            "MPI_Isend");
  return {stored(request), nullptr};
}

Posted Line::receive(void* data, size_t bytes, int peer, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(data, count_of(bytes), MPI_BYTE, peer == kAnyRank ? MPI_ANY_SOURCE : peer, tag,
                      communicator_->handle, &request),
            "MPI_Irecv");
  return {stored(request), nullptr};
}

namespace {

// MPI knows no bf16: one travels as what it is in memory, 16 bits. How ranks meet, in which segments and what
// moves where is the library's in such a sum too; only the addition of two elements is ours.
void add_bf16(void* from, void* to, int* length, MPI_Datatype* /*of both*/) {
  const auto* terms = static_cast<const bf16*>(from);
  auto* sums = static_cast<bf16*>(to);
  for (int i = 0; i < *length; ++i) sums[i] = round_to_bf16(widen(terms[i]) + widen(sums[i]));
}

struct Addition {
  MPI_Datatype type;
  MPI_Op operation;
};

// `bf16_sum` is made where there is none yet.
Addition addition_of(Type type, MPI_Op& bf16_sum) {
  if (type == Type::bf16) {
    constexpr int kCommutes = 1;
    if (bf16_sum == MPI_OP_NULL) check_mpi(MPI_Op_create(add_bf16, kCommutes, &bf16_sum), "MPI_Op_create");
    return {MPI_UINT16_T, bf16_sum};
  }
  require(type == Type::f32 || type == Type::i64, "MPI sums fp32, bf16 and int64");
  return {type == Type::f32 ? MPI_FLOAT : MPI_INT64_T, MPI_SUM};
}

}  // namespace

Posted Line::reduce_scatter(void* data, std::vector<int> counts, Type type) {
  auto lists = std::make_unique<Posted::Lists>(Posted::Lists{.counts = std::move(counts), .offsets = {}});
  const Addition sum = addition_of(type, communicator_->bf16_sum);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ireduce_scatter(MPI_IN_PLACE, data, lists->counts.data(), sum.type, sum.operation,
                                communicator_->handle, &request),
            "MPI_Ireduce_scatter");
  return {stored(request), std::move(lists)};
}

Posted Line::all_reduce(void* data, int count, Type type) {
  const Addition sum = addition_of(type, communicator_->bf16_sum);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Iallreduce(MPI_IN_PLACE, data, count, sum.type, sum.operation, communicator_->handle, &request),
      "MPI_Iallreduce");
  return {stored(request), std::make_unique<Posted::Lists>()};
}

Posted Line::all_gather(void* data, std::vector<int> counts) {
  auto lists = std::make_unique<Posted::Lists>(Posted::Lists{.counts = std::move(counts), .offsets = {}});
  int64_t at = 0;
  for (const int count : lists->counts) {
    require(at <= INT_MAX, "an MPI collective counts up to 2^31 - 1");
    lists->offsets.push_back(static_cast<int>(at));
    at += count;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, lists->counts.data(),
                            lists->offsets.data(), MPI_BYTE, communicator_->handle, &request),
            "MPI_Iallgatherv");
  return {stored(request), std::move(lists)};
}

std::optional<Line::Arrival> Line::arrival(int peer, int tag) {
  int flag = 0, count = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(peer == kAnyRank ? MPI_ANY_SOURCE : peer, tag, communicator_->handle, &flag, &status),
            "MPI_Iprobe");
  if (flag == 0) return std::nullopt;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  return Arrival{.rank = status.MPI_SOURCE, .bytes = static_cast<size_t>(count)};
}

}  // namespace zp::transport
