// Mutants that no claim can judge, since the ranks no longer talk or their numbers cannot be held: they end,
// on every rank, with one error.
#include "correctness/mutants/cases.hpp"
#include "correctness/mutants/wrong_parts.hpp"

namespace zp::mutants {
namespace {

Ending swapped_collectives_on_one_rank() {
  Trial m{.name = "SwappedCollectivesOnOneRank",
          .stage = "zero2",
          .world = 3,
          .micro_batches = 3,
          .timeout_s = 2.0};
  const auto swapped = gathers([](Transport& inner, const AllGather& call) {
    // Blocks have one shape, so block.0's gather under block.1's name is the silent case.
    AllGather other = call;
    if (call.label.tensor == 1 || call.label.tensor == 2) other.label.tensor = 3 - call.label.tensor;
    return inner.all_gather(other);
  });
  m.faults = [swapped](int rank) { return rank == 1 ? swapped(rank) : Faults{}; };
  return {m, Exit::transport, {"collective logs differ", "rank 1"}};
}

Ending collective_left_out_by_one_rank() {
  Trial m{.name = "CollectiveLeftOutByOneRank", .stage = "zero1", .world = 2, .timeout_s = 2.0};
  const auto left_out = gathers([](Transport& inner, const AllGather& call) {
    return call.label.purpose == Purpose::loss ? Handle() : inner.all_gather(call);
  });
  m.faults = [left_out](int rank) { return rank == 1 ? left_out(rank) : Faults{}; };
  return {m, Exit::transport, {"collective logs differ", "stage zero1"}};
}

Ending rank_that_stops() {
  Trial m{.name = "RankThatStops", .stage = "zero3", .world = 3, .timeout_s = 2.0};
  m.faults = [](int rank) {
    Faults faults;
    if (rank != 2) return faults;
    faults.begin_step = [](int step) {
      if (step == 1) fail(Exit::internal, "rank 2 stops here");
    };
    return faults;
  };
  return {m, Exit::internal, {"rank 2 stops here"}};
}

// Fixed point has bounds, and a rank that passes them is named, with what it computed.
Ending gradient_that_fixed_point_does_not_hold() {
  Trial m{.name = "GradientThatFixedPointDoesNotHold",
          .stage = "zero2",
          .world = 2,
          .timeout_s = 5.0,
          .wire = GradientWire::i64};
  m.faults = computes(
      [](kernels::Table& table, const kernels::Call& call) {
        table.run(call);
        if (const auto* bias = as<kernels::BiasBackward>(call)) bias->dbias.write<float>()[1] = 65536.0F;
      },
      1);
  return {
      m, Exit::bits, {"65536", "step 0", "rank 1", "micro-batch ", "block.2", "bias", "element 1", "2^19/8"}};
}

}  // namespace

std::vector<Ending> ending_mutants() {
  return {swapped_collectives_on_one_rank(), collective_left_out_by_one_rank(), rank_that_stops(),
          gradient_that_fixed_point_does_not_hold()};
}

}  // namespace zp::mutants
