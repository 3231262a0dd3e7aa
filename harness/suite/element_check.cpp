// After a refuted bits claim: one tensor compared element by element.
#include "harness/suite/element_check.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "harness/base/archive.hpp"
#include "harness/device/host_access.hpp"

namespace zp {
namespace {

// Part of a tensor as one rank holds it.
struct HeldBits {
  int rank = 0, place = 0;
  int64_t first = 0;  // element of the tensor
  bool half = false;
  std::vector<uint32_t> bits;
};

template <class A>
void archive(A& a, HeldBits& h) {
  a(h.rank, h.place, h.first, h.half, h.bits);
}

HeldBits own_bits(const Suspect& suspect, Trainer& trainer, int rank) {
  HeldBits held;
  held.rank = rank;
  held.place = trainer.place();
  const bool replica = suspect.replica_of >= 0;
  if (replica && suspect.replica_of != rank) return held;
  for (const StateRun& state : replica ? trainer.strategy().replicas() : trainer.strategy().own_state()) {
    if (state.kind != suspect.kind) continue;
    for (const TensorRun& run : runs(trainer.layout().unit(state.unit), state.in_unit)) {
      if (run.tensor->index != suspect.tensor) continue;
      held.first = (run.in_unit.begin - run.tensor->in_unit.begin).n;
      held.half = state.view.type() == Type::bf16;
      const View view =
          state.view.part({run.in_unit.begin - state.in_unit.begin, run.in_unit.end - state.in_unit.begin});
      if (held.half) {
        for (const bf16 x : HostView<bf16>(view)) held.bits.push_back(x.bits);
      } else {
        for (const float x : HostView<float>(view)) held.bits.push_back(std::bit_cast<uint32_t>(x));
      }
    }
  }
  return held;
}

std::string describe(const ElementQuestion& question, const Layout& layout, const std::vector<HeldBits>& held,
                     const std::vector<uint32_t>& expected) {
  const UnitLayout* unit = nullptr;
  const TensorLayout* tensor = nullptr;
  for (const UnitLayout& candidate : layout.units()) {
    for (const TensorLayout& t : candidate.tensors) {
      if (t.index != question.suspect.tensor) continue;
      unit = &candidate;
      tensor = &t;
    }
  }
  require(tensor != nullptr, "a suspect is a tensor of the model");
  int64_t wrong = 0;
  std::string first;
  for (const HeldBits& part : held) {
    for (size_t i = 0; i < part.bits.size(); ++i) {
      const size_t element = static_cast<size_t>(part.first) + i;
      if (part.bits[i] == expected.at(element)) continue;
      if (++wrong > 1) continue;
      const int digits = part.half ? 4 : 8;
      first = fmt::format("element {}, rank {} (place {}): got 0x{:0{}x}, expected 0x{:0{}x}, {} ulps apart",
                          element, part.rank, part.place, part.bits[i], digits, expected[element], digits,
                          ulps_between(part.bits[i], expected[element], part.half ? Type::bf16 : Type::f32));
    }
  }
  if (wrong == 0) first = "every element agrees: hashes were taken of something else";
  return fmt::format("step {}, stage {}, unit {}, {} of {}, {}; {} of {} elements differ", question.step,
                     question.stage, unit->name, name_of(question.suspect.kind), tensor->spec.name, first,
                     wrong, expected.size());
}

}  // namespace

int64_t ulps_between(uint32_t a, uint32_t b, Type type) {
  const auto ordered = [type](uint32_t bits) {
    const uint32_t sign = type == Type::bf16 ? 0x8000U : 0x80000000U;
    const auto magnitude = static_cast<int64_t>(bits & (sign - 1));
    return (bits & sign) != 0 ? -magnitude : magnitude;
  };
  return std::llabs(ordered(a) - ordered(b));
}

std::string compare_elements(const ElementQuestion& question, Trainer& trainer, Control& control) {
  const HeldBits mine = own_bits(question.suspect, trainer, control.rank());
  std::vector<HeldBits> held;
  for (const std::string& text : control.all_gather(to_bytes(mine)))
    held.push_back(from_bytes<HeldBits>(text));
  std::string line;
  if (control.rank() == 0) {
    line = describe(question, trainer.layout(), held,
                    question.replay(question.step, question.suspect.kind, question.suspect.tensor));
  }
  return control.broadcast(line);
}

}  // namespace zp
