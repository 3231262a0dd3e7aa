// Mutants of what a model's shape asks for: a borrowed table, a frozen unit, units that are kept, places by
// node.
#include "correctness/mutants/cases.hpp"
#include "correctness/mutants/misled.hpp"
#include "correctness/mutants/wrong_parts.hpp"

namespace zp::mutants {
namespace {

// ---- Tied

Case tied_gradient_not_added() {
  Trial m{.name = "TiedGradientNotAdded", .stage = "zero3", .world = 2, .tied = true};
  m.faults = computes([](kernels::Table& table, const kernels::Call& call) {
    if (const auto* embedding = as<kernels::EmbeddingBackward>(call)) {
      kernels::EmbeddingBackward alone = *embedding;
      alone.write_tokens = kernels::Write::overwrite;
      return table.run(alone);
    }
    table.run(call);
  });
  return {m, {Claim::bits}, "own gradient of micro-batch"};
}

// Four ranks: with two, one exchange leaves the rank's own whole as it was, and the same sum comes out again.
Case tied_gradient_reduced_twice() {
  Trial m{.name = "TiedGradientReducedTwice", .stage = "zero2", .world = 4, .tied = true};
  m.faults = reductions([](Transport& inner, const ReduceScatter& call) {
    if (call.label.tensor == 0) inner.reduce_scatter(call).wait();
    return inner.reduce_scatter(call);
  });
  return {m, {Claim::bits, Claim::bytes, Claim::work}, "averaged gradient"};
}

Case borrowed_table_is_stale() {
  Trial m{.name = "BorrowedTableIsStale", .stage = "zero3", .world = 2, .tied = true};
  m.faults = [](int) {
    Faults faults;
    faults.transport = [](Transport& inner) {
      auto transport = std::make_unique<WrongTransport>(inner);
      auto seen = std::make_shared<int>(0);
      transport->on_all_gather = [seen](Transport& next, const AllGather& call) {
        Handle handle = next.all_gather(call);
        if (call.label.tensor != 0 || call.label.purpose != Purpose::gather_params) return handle;
        handle.wait();
        // Four gathers of the embeddings a micro-step; the second is for the head's forward.
        if (++*seen % 4 == 2) call.whole.write<bf16>()[0].bits ^= 1;
        return Handle();
      };
      return transport;
    };
    return faults;
  };
  return {m, {Claim::bits}, "weights of embeddings, which head borrows, in forward"};
}

// ---- Frozen

std::vector<UnitSpec> thawed(const Layout& layout) {
  std::vector<UnitSpec> units;
  for (const UnitLayout& unit : layout.units()) {
    units.push_back({.name = unit.name, .tensors = {}, .borrows = unit.borrows});
    for (const TensorLayout& tensor : unit.tensors) units.back().tensors.push_back(tensor.spec);
  }
  return units;
}

// A rig whose layout trains every unit.
struct Thawed {
  explicit Thawed(Rig& given)
      : layout(thawed(given.layout), given.layout.places()),
        rig{.device = given.device,
            .kernels = given.kernels,
            .transport = given.transport,
            .layout = layout,
            .training = given.training} {}
  Layout layout;
  Rig rig;
};

class TrainsEveryUnit final : private Thawed, public Misled {
 public:
  explicit TrainsEveryUnit(Rig& given) : Thawed(given), Misled(given, make_zero2(Thawed::rig)) {}
};

// Its gradient is zero; weight decay moves it all the same.
Case frozen_unit_trained() {
  Trial m{.name = "FrozenUnitTrained", .stage = "zero2", .world = 2, .fill = Fill::zero};
  m.frozen = {"block.1"};
  m.make = make<TrainsEveryUnit>;
  return {m, {Claim::bits, Claim::bytes, Claim::memory, Claim::work}, "block.1"};
}

// ---- Kept

// A rig that asks for one kept unit less.
struct KeepsLess {
  explicit KeepsLess(Rig& given)
      : training(given.training),
        rig{.device = given.device,
            .kernels = given.kernels,
            .transport = given.transport,
            .layout = given.layout,
            .training = training} {
    --training.keep;
  }
  Training training;
  Rig rig;
};

class DropsAUnitEarly final : private KeepsLess, public Misled {
 public:
  explicit DropsAUnitEarly(Rig& given) : KeepsLess(given), Misled(given, make_zero3(KeepsLess::rig)) {}
};

Case unit_dropped_early() {
  Trial m{.name = "UnitDroppedEarly", .stage = "zero3", .world = 2, .keep = 2};
  m.make = make<DropsAUnitEarly>;
  return {m, {Claim::bytes, Claim::memory}, "gather params"};
}

// ---- Places

Case place_that_is_off() {
  Trial m{.name = "PlaceThatIsOff", .stage = "zero1", .world = 4};
  m.node_of = {0, 0, 1, 1};
  m.rank_at = {0, 1, 2, 3};
  return {m, {Claim::bytes}, "sent to ranks on other nodes"};
}

}  // namespace

std::vector<Case> shape_mutants() {
  return {tied_gradient_not_added(), tied_gradient_reduced_twice(), borrowed_table_is_stale(),
          frozen_unit_trained(),     unit_dropped_early(),          place_that_is_off()};
}

}  // namespace zp::mutants
