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
  bool yields() const override { return inner_.yields(); }
  bool is_held_up() const override { return inner_.is_held_up(); }

 private:
  Link& inner_;
  Ledger& ledger_;
};

// Messages as they are put on the stream. What the library's own collectives send, it does not say.
class MeteredCarrier final : public Carrier {
 public:
  MeteredCarrier(Carrier& inner, Ledger& ledger) : inner_(inner), ledger_(ledger) {}
  int rank() const override { return inner_.rank(); }
  int world() const override { return inner_.world(); }

  void exchange(Purpose purpose, std::span<const Message> sent, std::span<const Message> received) override {
    for (const Message& message : sent)
      ledger_.send(purpose, message.peer, {static_cast<int64_t>(message.bytes.size())});
    inner_.exchange(purpose, sent, received);
  }
  void reduce_scatter(const View& data) override { inner_.reduce_scatter(data); }
  void all_reduce(const View& data) override { inner_.all_reduce(data); }
  void all_gather(const View& data) override { inner_.all_gather(data); }
  void check() override { inner_.check(); }
  void abort(const Error& reason) noexcept override { inner_.abort(reason); }
  void set_lookout(Lookout* lookout) override { inner_.set_lookout(lookout); }

 private:
  Carrier& inner_;
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

std::unique_ptr<Carrier> make_metered_carrier(Carrier& inner, Ledger& ledger) {
  return std::make_unique<MeteredCarrier>(inner, ledger);
}

std::unique_ptr<Transport> make_metered_transport(Transport& inner, Ledger& ledger) {
  return std::make_unique<MeteredTransport>(inner, ledger);
}

std::unique_ptr<kernels::Table> make_metered_table(kernels::Table& inner, Ledger& ledger) {
  return std::make_unique<MeteredTable>(inner, ledger);
}

}  // namespace zp
