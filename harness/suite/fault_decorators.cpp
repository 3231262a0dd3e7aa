// The decorators behind --inject: each wraps one part of a rank's rig and misbehaves in one step.
#include "harness/suite/fault_decorators.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "harness/device/host_access.hpp"

namespace zp {
namespace {

// Wraps `make(inner)` around whatever decorator is there already, which lives as long as the list of faults.
template <class T, class Make>
void wrap(std::function<std::unique_ptr<T>(T&)>& slot, Make make) {
  if (!slot) {
    slot = make;
    return;
  }
  slot = [first = slot, make, kept = std::make_shared<std::vector<std::unique_ptr<T>>>()](T& inner) {
    kept->push_back(first(inner));
    return std::unique_ptr<T>(make(*kept->back()));
  };
}

// ---- bitflip

float as_float(float x) { return x; }
float as_float(bf16 x) { return widen(x); }
float as_float(int64_t x) { return static_cast<float>(x); }

// Index of the element of largest magnitude, or -1 where all are zero. NaN counts as larger than everything.
template <class T>
int64_t largest(std::span<const std::byte> bytes) {
  int64_t found = -1;
  float most = 0.0F;
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    const float magnitude = std::fabs(as_float(value));
    if (magnitude > most) {
      most = magnitude;
      found = static_cast<int64_t>(i);
    }
  }
  return found;
}

// Flips a bit of the largest element, and says whether there was one.
bool flip_largest(std::span<std::byte> bytes, Type type, int wanted) {
  const int64_t at = type == Type::bf16  ? largest<bf16>(bytes)
                     : type == Type::i64 ? largest<int64_t>(bytes)
                                         : largest<float>(bytes);
  if (at < 0) return false;
  const int usual = type == Type::bf16 ? 7 : type == Type::i64 ? 40 : 23;
  const int bit = wanted < 0 ? usual : wanted;
  // Little-endian: bit b of an element is bit b mod 8 of its byte b / 8.
  bytes[static_cast<size_t>(at * size_of(type).n + bit / 8)] ^= std::byte{1} << (bit % 8);
  return true;
}

class FlippingRequest final : public Request {
 public:
  FlippingRequest(std::unique_ptr<Request> inner, std::span<std::byte> bytes, Type type, Armed& armed,
                  bool& spent)
      : inner_(std::move(inner)), bytes_(bytes), type_(type), armed_(armed), spent_(spent) {}

  bool done() override {
    if (!inner_->done()) return false;
    if (!seen_) {
      seen_ = true;
      flip();
    }
    return true;
  }

 private:
  void flip() {
    if (spent_ || !flip_largest(bytes_, type_, armed_.injection.bit)) return;
    spent_ = true;
    armed_.strike();
  }

  std::unique_ptr<Request> inner_;
  std::span<std::byte> bytes_;
  Type type_;
  Armed& armed_;
  bool& spent_;
  bool seen_ = false;
};

class FlippingLink final : public Link {
 public:
  FlippingLink(Link& inner, const Armed& armed) : inner_(inner), armed_(armed) {}
  int rank() const override { return inner_.rank(); }
  int world() const override { return inner_.world(); }

  std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) override {
    return inner_.send(peer, tag, bytes);
  }

  std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) override {
    auto request = inner_.receive(peer, tag, bytes);
    if (spent_ || !armed_.due() || !armed_.hits(tag.tensor) || tag.purpose != Purpose::reduce_grads) {
      return request;
    }
    return std::make_unique<FlippingRequest>(std::move(request), bytes, armed_.wire, armed_, spent_);
  }
  bool yields() const override { return inner_.yields(); }
  bool is_held_up() const override { return inner_.is_held_up(); }

 private:
  Link& inner_;
  Armed armed_;
  bool spent_ = false;
};

// ---- flip-gradient

// Strikes before the gradient is hashed, added or sent.
class FlippingModel final : public Model {
 public:
  FlippingModel(std::unique_ptr<Model> inner, const Armed& armed) : inner_(std::move(inner)), armed_(armed) {}

  void begin(int step, int number, const MicroBatch& tokens) override {
    number_ = number;
    inner_->begin(step, number, tokens);
  }
  void forward(int unit, const UnitViews& weights) override { inner_->forward(unit, weights); }
  float loss() const override { return inner_->loss(); }

  void backward(int unit, const UnitViews& weights, const UnitViews& grads) override {
    inner_->backward(unit, weights, grads);
    const int wanted = armed_.injection.micro_batch;
    if (spent_ || !armed_.due() || !armed_.hits(unit) || grads.own.empty()) return;
    if (wanted >= 0 && wanted != number_) return;
    const HostBytes held(grads.own);
    std::vector<std::byte> flipped(held.bytes().begin(), held.bytes().end());
    if (!flip_largest(flipped, grads.own.type(), armed_.injection.bit)) return;
    write_from_host(grads.own, flipped);
    spent_ = true;
    armed_.strike();
  }

 private:
  std::unique_ptr<Model> inner_;
  Armed armed_;
  int number_ = -1;
  bool spent_ = false;
};

// ---- skip-gather and extra-message

class GatherFault final : public Transport {
 public:
  GatherFault(Transport& inner, const Armed& armed) : inner_(inner), armed_(armed) {}
  int rank() const override { return inner_.rank(); }
  int place() const override { return inner_.place(); }
  int world() const override { return inner_.world(); }
  Handle reduce_scatter(const ReduceScatter& call) override { return inner_.reduce_scatter(call); }
  Handle all_reduce(const AllReduce& call) override { return inner_.all_reduce(call); }
  void poll() override { inner_.poll(); }

  Handle all_gather(const AllGather& call) override {
    if (spent_ || !armed_.due() || !armed_.hits(call.label.tensor)) return inner_.all_gather(call);
    if (armed_.injection.kind == FaultKind::extra_message) {
      spent_ = true;
      armed_.strike();
      inner_.all_gather(call).wait();
    } else if (call.label.purpose == Purpose::gather_params) {
      spent_ = true;
      armed_.strike();
      return {};
    }
    return inner_.all_gather(call);
  }

 private:
  Transport& inner_;
  Armed armed_;
  bool spent_ = false;
};

// ---- double-average and extra-compute

class KernelFault final : public kernels::Table {
 public:
  KernelFault(kernels::Table& inner, const Armed& armed) : inner_(inner), armed_(armed) {}

  void run(const kernels::Call& call) override {
    if (armed_.due() && armed_.injection.kind == FaultKind::double_average) {
      if (const auto* fold = std::get_if<kernels::Fold>(&call); fold != nullptr && fold->divisor != 1.0F) {
        kernels::Fold twice = *fold;
        twice.divisor *= fold->divisor;
        armed_.strike();
        inner_.run(twice);
        return;
      }
    }
    inner_.run(call);
    if (armed_.due() && armed_.injection.kind == FaultKind::extra_compute && !spent_ && repeatable(call)) {
      spent_ = true;
      armed_.strike();
      inner_.run(call);
    }
  }

 private:
  // Running it again changes no result.
  static bool repeatable(const kernels::Call& call) {
    const auto* gemm = std::get_if<kernels::Gemm>(&call);
    return (gemm != nullptr && gemm->write == kernels::Write::overwrite) ||
           std::holds_alternative<kernels::SyntheticGradient>(call);
  }

  kernels::Table& inner_;
  Armed armed_;
  bool spent_ = false;
};

// ---- keep-gradients

class KeepingDevice final : public Device {
 public:
  KeepingDevice(Device& inner, const Armed& armed) : inner_(inner), armed_(armed) {}
  ~KeepingDevice() override {
    for (const Kept& kept : kept_) inner_.release(kept.category, kept.data, kept.bytes);
  }

  void* allocate(Category category, Bytes bytes) override { return inner_.allocate(category, bytes); }

  void release(Category category, void* data, Bytes bytes) noexcept override {
    if (category == Category::bucket && armed_.due()) {
      armed_.strike();
      kept_.push_back({category, data, bytes});
      return;
    }
    inner_.release(category, data, bytes);
  }

  FarMemory* far_memory() override { return inner_.far_memory(); }

 private:
  struct Kept {
    Category category;
    void* data;
    Bytes bytes;
  };
  Device& inner_;
  Armed armed_;
  std::vector<Kept> kept_;
};

}  // namespace

void add_fault(Faults& faults, const Armed& armed) {
  switch (armed.injection.kind) {
    case FaultKind::bitflip:
      wrap(faults.link, [armed](Link& inner) { return std::make_unique<FlippingLink>(inner, armed); });
      break;
    case FaultKind::flip_gradient:
      faults.model = [first = faults.model, armed](std::unique_ptr<Model> inner) {
        if (first) inner = first(std::move(inner));
        return std::make_unique<FlippingModel>(std::move(inner), armed);
      };
      break;
    case FaultKind::skip_gather:
    case FaultKind::extra_message:
      wrap(faults.transport,
           [armed](Transport& inner) { return std::make_unique<GatherFault>(inner, armed); });
      break;
    case FaultKind::double_average:
    case FaultKind::extra_compute:
      wrap(faults.kernels,
           [armed](kernels::Table& inner) { return std::make_unique<KernelFault>(inner, armed); });
      break;
    case FaultKind::keep_gradients:
      // Gives back what it kept when it ends, while the device inside it is still there: one of them is
      // enough.
      if (faults.device)
        fail(Exit::usage, "--inject '" + armed.injection.text + "': keep-gradients is given twice");
      wrap(faults.device, [armed](Device& inner) { return std::make_unique<KeepingDevice>(inner, armed); });
      break;
  }
}

}  // namespace zp
