// Mutants of parameters, bytes, memory and work: gathers forgotten or late, collectives too many, buffers
// kept.
#include <algorithm>
#include <array>

#include "correctness/mutants/cases.hpp"
#include "correctness/mutants/wrong_parts.hpp"
#include "correctness/mutants/wrong_strategies.hpp"

namespace zp::mutants {
namespace {

// ---- Parameters: gathers forgotten, late, of the wrong thing

Case forgotten_gather_after_step() {
  Trial m{.name = "ForgottenGatherAfterStep", .stage = "zero1", .world = 4};
  m.faults = gathers([](Transport& inner, const AllGather& call) {
    return call.label.tensor == kLastUnit ? Handle() : inner.all_gather(call);
  });
  return {m, {Claim::bits, Claim::bytes}, "param"};
}

Case forgotten_gather_before_forward() {
  Trial m{.name = "ForgottenGatherBeforeForward", .stage = "zero3-keep", .world = 2, .fill = Fill::zero};
  m.faults = gathers([](Transport& inner, const AllGather& call) {
    return call.label.tensor == 1 ? Handle() : inner.all_gather(call);
  });
  return {m, {Claim::bits, Claim::bytes}, "block.0"};
}

Case gathered_too_early() {
  return {{.name = "GatheredTooEarly", .stage = "zero2", .world = 2, .make = gathers_too_early},
          {Claim::bits},
          "param"};
}

Case stale_weights_in_backward() {
  Trial m{.name = "StaleWeightsInBackward", .stage = "zero3", .world = 2};
  m.faults = [](int) {
    Faults faults;
    faults.transport = [](Transport& inner) {
      auto transport = std::make_unique<WrongTransport>(inner);
      auto seen = std::make_shared<int>(0);
      transport->on_all_gather = [seen](Transport& next, const AllGather& call) {
        Handle handle = next.all_gather(call);
        if (call.label.tensor != 2 || call.label.purpose != Purpose::gather_params) return handle;
        handle.wait();
        // Every second gather of the unit is the one before backward.
        if (++*seen % 2 == 0) call.whole.write<bf16>()[0].bits ^= 1;
        return Handle();
      };
      return transport;
    };
    return faults;
  };
  return {m, {Claim::bits}, "backward"};
}

// ---- Bytes

Case all_reduce_for_reduce_scatter() {
  return {{.name = "AllReduceForReduceScatter", .stage = "zero1", .world = 4, .make = make_zero1_allreduce},
          {Claim::bytes},
          "reduce grads"};
}

Case every_micro_step_reduced() {
  return {{.name = "EveryMicroStepReduced", .stage = "zero1", .world = 2, .make = make_zero2},
          {Claim::bits, Claim::bytes, Claim::memory, Claim::work},
          "micro-batch"};
}

Case one_collective_too_many() {
  Trial m{.name = "OneCollectiveTooMany", .stage = "zero3", .world = 3};
  m.faults = gathers([](Transport& inner, const AllGather& call) {
    if (call.label.purpose == Purpose::loss) inner.all_gather(call).wait();
    return inner.all_gather(call);
  });
  return {m, {Claim::bytes}, "loss"};
}

Case one_float_too_many() {
  Trial m{.name = "OneMessageTooMany", .stage = "zero1", .world = 3};
  m.faults = [](int rank) {
    Faults faults;
    if (rank != 1) return faults;
    faults.link = [](Link& inner) -> std::unique_ptr<Link> {
      class Chatty final : public Link {
       public:
        explicit Chatty(Link& link) : link_(link) {}
        int rank() const override { return link_.rank(); }
        int world() const override { return link_.world(); }
        std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) override {
          // Split in two: the same bytes, a message more; then the receiver's length no longer fits, so the
          // second half goes to nobody: a stray message of one float to the same peer under a tag of its own.
          if (tag.purpose == Purpose::grad_norm) {
            stray_.push_back(link_.send(peer, {.sequence = -7, .tensor = 63, .purpose = tag.purpose},
                                        bytes.first(sizeof(float))));
          }
          return link_.send(peer, tag, bytes);
        }
        std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) override {
          return link_.receive(peer, tag, bytes);
        }

       private:
        Link& link_;
        std::vector<std::unique_ptr<Request>> stray_;
      };
      return std::make_unique<Chatty>(inner);
    };
    return faults;
  };
  return {m, {Claim::bytes}, "rank 1"};
}

// ---- Memory

Case whole_gradient_kept() {
  Trial m{.name = "WholeGradientKept", .stage = "zero1", .world = 4, .make = make_ddp};
  return {m, {Claim::bytes, Claim::memory, Claim::work}, "gather params"};
}

Case gathered_units_kept() {
  return {{.name = "GatheredUnitsKept", .stage = "zero3", .world = 2, .make = keeps_gathered_units},
          {Claim::memory},
          "gathered"};
}

Case a_little_leaks_every_step() {
  return {{.name = "ALittleLeaksEveryStep", .stage = "zero2", .world = 2, .steps = 3, .make = leaks_a_little},
          {Claim::memory},
          "step 1"};
}

// ---- Work

Case extra_forward() {
  Trial m{.name = "ExtraForward", .stage = "ddp", .world = 2};
  m.faults = computes(
      [](kernels::Table& table, const kernels::Call& call) {
        table.run(call);
        if (as<kernels::GeluForward>(call) != nullptr) table.run(call);
      },
      0);
  return {m, {Claim::work}, "gelu"};
}

Case whole_optimizer_everywhere() {
  Trial m{.name = "WholeOptimizerEverywhere", .stage = "zero1-allreduce", .world = 2, .make = make_ddp};
  return {m, {Claim::bytes, Claim::memory, Claim::work}, "gather params"};
}

}  // namespace

std::vector<Case> traffic_mutants() {
  return {forgotten_gather_after_step(),
          forgotten_gather_before_forward(),
          gathered_too_early(),
          stale_weights_in_backward(),
          all_reduce_for_reduce_scatter(),
          every_micro_step_reduced(),
          one_collective_too_many(),
          one_float_too_many(),
          whole_gradient_kept(),
          gathered_units_kept(),
          a_little_leaks_every_step(),
          extra_forward(),
          whole_optimizer_everywhere()};
}

}  // namespace zp::mutants
