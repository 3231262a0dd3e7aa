// Messages and collectives by NCCL. Its calls never block: a rank that does not come must not keep the others
// from giving up, so the host asks until a call has done its part, with a deadline.
#include <algorithm>
#include <array>
#include <cstring>

#include "harness/transport/caption.hpp"
#include "harness/transport/nccl.hpp"
#include "harness/transport/nccl_functions.hpp"
#include "harness/transport/patience.hpp"

namespace zp {
namespace {

using transport::Patience;

ncclDataType_t type_of(Type type) {
  switch (type) {
    case Type::f32: return ncclFloat32;
    case Type::bf16: return ncclBfloat16;
    case Type::i32: return ncclInt32;
    case Type::i64: return ncclInt64;
  }
  fail(Exit::internal, "a type that NCCL does not move");
}

std::string text_of(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// NCCL quotes CUDA where there is no GPU for it, no driver, or one that is too old.
bool lacks_driver(const std::string& text) {
  constexpr std::array kLacking{cudaErrorInsufficientDriver, cudaErrorStubLibrary, cudaErrorNoDevice};
  return std::ranges::any_of(
      kLacking, [&](cudaError_t error) { return text.find(cudaGetErrorString(error)) != std::string::npos; });
}

class NcclCarrier final : public Carrier {
 public:
  NcclCarrier(const NcclFunctions& nccl, CudaDevice& device, CudaStream& stream, Control& control,
              double timeout_s)
      : nccl_(nccl), device_(device), stream_(stream), control_(control), timeout_s_(timeout_s) {
    checked_version(nccl);
    ncclUniqueId id = agreed_id();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    try {
      settle("ncclCommInitRankConfig", nccl_.init_rank(&comm_, world(), id, rank(), &config));
    } catch (...) {
      end();
      throw;
    }
  }

  ~NcclCarrier() override {
    try {
      if (comm_ == nullptr) return;
      settle("ncclCommFinalize", nccl_.finalize(comm_));
      static_cast<void>(nccl_.destroy(comm_));
    } catch (const Error&) {
      end();
    }
  }

  int rank() const override { return control_.rank(); }
  int world() const override { return control_.world(); }

  void exchange(Purpose, std::span<const Message> sent, std::span<const Message> received) override {
    ncclComm_t comm = alive();
    call("ncclGroupStart", nccl_.group_start());
    ncclResult_t first = ncclSuccess;
    const auto note = [&](ncclResult_t result) {
      if (first == ncclSuccess && result != ncclInProgress) first = result;
    };
    for (const Message& message : received) {
      note(nccl_.receive(message.bytes.data(), message.bytes.size(), ncclUint8, message.peer, comm,
                         stream_.handle()));
    }
    for (const Message& message : sent) {
      note(nccl_.send(message.bytes.data(), message.bytes.size(), ncclUint8, message.peer, comm,
                      stream_.handle()));
    }
    const ncclResult_t ended = nccl_.group_end();
    call("ncclSend, ncclRecv", first);
    settle("ncclGroupEnd", ended);
  }

  void reduce_scatter(const View& data) override {
    const Own own = own_of(data);
    settle("ncclReduceScatter", nccl_.reduce_scatter(data.raw(), own.data, own.count, type_of(data.type()),
                                                     ncclSum, alive(), stream_.handle()));
  }
  void all_reduce(const View& data) override {
    settle("ncclAllReduce", nccl_.all_reduce(data.raw(), data.raw(), static_cast<size_t>(data.length().n),
                                             type_of(data.type()), ncclSum, alive(), stream_.handle()));
  }
  void all_gather(const View& data) override {
    const Own own = own_of(data);
    settle("ncclAllGather", nccl_.all_gather(own.data, data.raw(), own.count, type_of(data.type()), alive(),
                                             stream_.handle()));
  }

  void check() override {
    if (comm_ == nullptr) return;
    ncclResult_t state = ncclSuccess;
    call("ncclCommGetAsyncError", nccl_.get_async_error(comm_, &state));
    if (state != ncclInProgress) call("work that it had begun", state);
  }

  void abort(const Error& reason) noexcept override {
    device_.spoil(reason);
    end();
  }

  void set_lookout(Lookout* lookout) override { device_.set_lookout(lookout); }

 private:
  struct Own {
    void* data;
    size_t count;
  };
  Own own_of(const View& data) const {
    const Elements each{data.length().n / world()};
    return {data.part({each * rank(), each * (rank() + 1)}).raw(), static_cast<size_t>(each.n)};
  }

  ncclUniqueId agreed_id() {
    ncclUniqueId id{};
    if (rank() == 0) call("ncclGetUniqueId", nccl_.get_unique_id(&id));
    const std::string text = control_.broadcast({id.internal, sizeof id.internal});
    require(text.size() == sizeof id.internal, "rank 0 sends the id of a communicator");
    std::memcpy(id.internal, text.data(), text.size());
    return id;
  }

  ncclComm_t alive() const {
    require(comm_ != nullptr, "nothing is put on a communicator that was given up");
    return comm_;
  }

  void call(const char* name, ncclResult_t result) const {
    if (result == ncclSuccess || result == ncclInProgress) return;
    std::string text = std::string("NCCL: ") + name + ": " + nccl_.get_error_string(result);
    const char* more = nccl_.get_last_error(comm_);
    if (more != nullptr && *more != '\0') text += ": " + std::string(more);
    std::replace(text.begin(), text.end(), '\n', ' ');
    fail(lacks_driver(text) ? Exit::unavailable : Exit::cuda, text);
  }

  // Until the call has done its part: only then is its work on the stream, before what is put there next.
  void settle(const char* name, ncclResult_t result) {
    call(name, result);
    Patience patience(timeout_s_, transport::kLongestSleepInCollectives);
    while (result == ncclInProgress) {
      call("ncclCommGetAsyncError", nccl_.get_async_error(comm_, &result));
      call(name, result);
      if (result != ncclInProgress) return;
      control_.check();
      if (patience.expired())
        fail(Exit::timeout, "waited " + transport::seconds_text(timeout_s_) + " for " + name);
      patience.pause();
    }
  }

  void end() noexcept {
    if (comm_ != nullptr) static_cast<void>(nccl_.abort(comm_));
    comm_ = nullptr;
  }

  const NcclFunctions& nccl_;
  CudaDevice& device_;
  CudaStream& stream_;
  Control& control_;
  double timeout_s_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

int checked_version(const NcclFunctions& nccl) {
  int version = 0;
  if (nccl.get_version(&version) != ncclSuccess) fail(Exit::unavailable, "NCCL does not say its version");
  // A library reads structures of its own version and of older ones.
  if (version < NCCL_VERSION_CODE) {
    fail(Exit::unavailable, "NCCL " + text_of(version) + " is here, which is older than the " +
                                text_of(NCCL_VERSION_CODE) + " that zeroproof was built with");
  }
  return version;
}

std::string nccl_version() { return text_of(checked_version(nccl_functions())); }

std::unique_ptr<Carrier> make_nccl_carrier(const NcclFunctions& nccl, CudaDevice& device, CudaStream& stream,
                                           Control& control, double timeout_s) {
  return std::make_unique<NcclCarrier>(nccl, device, stream, control, timeout_s);
}

std::unique_ptr<Carrier> make_nccl_carrier(CudaDevice& device, CudaStream& stream, Control& control,
                                           double timeout_s) {
  return make_nccl_carrier(nccl_functions(), device, stream, control, timeout_s);
}

}  // namespace zp
