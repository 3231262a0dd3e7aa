// Decorators that are wrong on purpose, from small functions: what a transport or a table of kernels does
// instead.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "harness/trainer/trainer.hpp"

namespace zp::mutants {

// A transport whose calls go through functions; an empty one passes on.
class WrongTransport final : public Transport {
 public:
  std::function<Handle(Transport&, const ReduceScatter&)> on_reduce_scatter;
  std::function<Handle(Transport&, const AllGather&)> on_all_gather;
  std::function<Handle(Transport&, const AllReduce&)> on_all_reduce;

  explicit WrongTransport(Transport& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int place() const override { return inner_.place(); }
  int world() const override { return inner_.world(); }
  Handle reduce_scatter(const ReduceScatter& call) override {
    return on_reduce_scatter ? on_reduce_scatter(inner_, call) : inner_.reduce_scatter(call);
  }
  Handle all_gather(const AllGather& call) override {
    return on_all_gather ? on_all_gather(inner_, call) : inner_.all_gather(call);
  }
  Handle all_reduce(const AllReduce& call) override {
    return on_all_reduce ? on_all_reduce(inner_, call) : inner_.all_reduce(call);
  }
  void poll() override { inner_.poll(); }

 private:
  Transport& inner_;
};

// A table that runs something else.
class WrongTable final : public kernels::Table {
 public:
  using Run = std::function<void(kernels::Table&, const kernels::Call&)>;
  WrongTable(kernels::Table& inner, Run run) : inner_(inner), run_(std::move(run)) {}
  void run(const kernels::Call& call) override { run_(inner_, call); }

 private:
  kernels::Table& inner_;
  Run run_;
};

inline std::function<Faults(int)> gathers(std::function<Handle(Transport&, const AllGather&)> wrong) {
  return [wrong](int) {
    Faults faults;
    faults.transport = [wrong](Transport& inner) {
      auto transport = std::make_unique<WrongTransport>(inner);
      transport->on_all_gather = wrong;
      return transport;
    };
    return faults;
  };
}

inline std::function<Faults(int)> reductions(std::function<Handle(Transport&, const ReduceScatter&)> wrong) {
  return [wrong](int) {
    Faults faults;
    faults.transport = [wrong](Transport& inner) {
      auto transport = std::make_unique<WrongTransport>(inner);
      transport->on_reduce_scatter = wrong;
      return transport;
    };
    return faults;
  };
}

// On every rank, or on one.
inline std::function<Faults(int)> computes(WrongTable::Run wrong, int only_rank = -1) {
  return [wrong, only_rank](int rank) {
    Faults faults;
    if (only_rank >= 0 && rank != only_rank) return faults;
    faults.kernels = [wrong](kernels::Table& inner) { return std::make_unique<WrongTable>(inner, wrong); };
    return faults;
  };
}

}  // namespace zp::mutants
