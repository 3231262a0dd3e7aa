// Metered decorators: every byte held, sent and asked for, and every kernel call, passes through one of
// these.
#include "harness/ledger/ledger.hpp"

namespace zp {
namespace {

class MeteredDevice final : public Device {
 public:
  MeteredDevice(Device& inner, Ledger& ledger) : inner_(inner), ledger_(ledger) {}

  void* allocate(Category category, Bytes bytes) override {
    void* data = inner_.allocate(category, bytes);
    ledger_.acquire(category, bytes);
    return data;
  }

  void release(Category category, void* data, Bytes bytes) noexcept override {
    inner_.release(category, data, bytes);
    ledger_.give_back(category, bytes);
  }

  FarMemory* far_memory() override { return inner_.far_memory(); }

 private:
  Device& inner_;
  Ledger& ledger_;
};

class MeteredLink final : public Link {
 public:
  MeteredLink(Link& inner, Ledger& ledger) : inner_(inner), ledger_(ledger) {}
  int rank() const override { return inner_.rank(); }
  int world() const override { return inner_.world(); }

  std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) override {
    ledger_.send(tag.purpose, peer, {static_cast<int64_t>(bytes.size())});
    return inner_.send(peer, tag, bytes);
  }

  std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) override {
    return inner_.receive(peer, tag, bytes);
  }

 private:
  Link& inner_;
  Ledger& ledger_;
};

class MeteredTransport final : public Transport {
 public:
  MeteredTransport(Transport& inner, Ledger& ledger) : inner_(inner), ledger_(ledger) {}
  int rank() const override { return inner_.rank(); }
  int place() const override { return inner_.place(); }
  int world() const override { return inner_.world(); }

  Handle reduce_scatter(const ReduceScatter& call) override {
    ledger_.ask(Operation::reduce_scatter, call.label, wire_of(call), call.cuts.asked());
    return inner_.reduce_scatter(call);
  }

  Handle all_gather(const AllGather& call) override {
    ledger_.ask(Operation::all_gather, call.label, call.whole.type(), call.cuts.asked());
    return inner_.all_gather(call);
  }

  Handle all_reduce(const AllReduce& call) override {
    ledger_.ask(Operation::all_reduce, call.label, wire_of(call), call.cuts.asked());
    return inner_.all_reduce(call);
  }

  void poll() override { inner_.poll(); }

 private:
  Transport& inner_;
  Ledger& ledger_;
};

class MeteredTable final : public kernels::Table {
 public:
  MeteredTable(kernels::Table& inner, Ledger& ledger) : inner_(inner), ledger_(ledger) {}

  void run(const kernels::Call& call) override {
    ledger_.work(kernels::name_of(call), kernels::elements_of(call));
    inner_.run(call);
  }

 private:
  kernels::Table& inner_;
  Ledger& ledger_;
};

}  // namespace

std::unique_ptr<Device> make_metered_device(Device& inner, Ledger& ledger) {
  return std::make_unique<MeteredDevice>(inner, ledger);
}

std::unique_ptr<Link> make_metered_link(Link& inner, Ledger& ledger) {
  return std::make_unique<MeteredLink>(inner, ledger);
}

std::unique_ptr<Transport> make_metered_transport(Transport& inner, Ledger& ledger) {
  return std::make_unique<MeteredTransport>(inner, ledger);
}

std::unique_ptr<kernels::Table> make_metered_table(kernels::Table& inner, Ledger& ledger) {
  return std::make_unique<MeteredTable>(inner, ledger);
}

}  // namespace zp
