// The claim "bits": what every rank used, summed, updated and holds is what one device alone has, bit for
// bit. Compared by hashes; they are sums over elements, so slices add up to tensors and tensors to units.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <tuple>

#include "harness/claim/findings.hpp"
#include "harness/claim/reference_hashes.hpp"
#include "harness/layout/uses.hpp"

namespace zp {
namespace {

// A hash has no distance: it differs or not.
std::string unequal(const HashSum& got, const HashSum& expected) {
  if (!got.finite) return fmt::format("got NaN or Inf, expected {}", to_string(expected));
  return fmt::format("got {}, expected {}", to_string(got), to_string(expected));
}

// Steps between two fp64 values along all representable ones.
uint64_t ulps_between(uint64_t a, uint64_t b) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  const auto ordered = [](uint64_t bits) { return (bits & kSign) != 0 ? ~bits : bits | kSign; };
  const uint64_t x = ordered(a);
  const uint64_t y = ordered(b);
  return x > y ? x - y : y - x;
}

std::string unequal(uint64_t got, uint64_t expected) {
  return fmt::format("got {:#018x} ({}), expected {:#018x} ({}), difference {} ulps", got,
                     std::bit_cast<double>(got), expected, std::bit_cast<double>(expected),
                     ulps_between(got, expected));
}

struct Tensor {
  const TensorLayout* tensor = nullptr;
  const UnitLayout* unit = nullptr;
};

std::vector<Tensor> tensors_of(const Layout& layout) {
  std::vector<Tensor> list;
  for (const UnitLayout& unit : layout.units()) {
    for (const TensorLayout& tensor : unit.tensors) list.push_back({&tensor, &unit});
  }
  return list;
}

// Of one kind, summed by tensor. Hashes of tensors that do not exist are returned apart.
struct ByTensor {
  std::vector<HashSum> sum;
  std::vector<int> parts;
  bool has_unknown = false;
};

void add_hashes(ByTensor& into, const std::vector<TensorHash>& hashes, HashKind kind) {
  for (const TensorHash& h : hashes) {
    if (h.kind != kind) continue;
    if (h.tensor < 0 || h.tensor >= static_cast<int>(into.sum.size())) {
      into.has_unknown = true;
      continue;
    }
    into.sum[static_cast<size_t>(h.tensor)] += h.hash;
    ++into.parts[static_cast<size_t>(h.tensor)];
  }
}

ByTensor no_hashes(const Layout& layout) {
  const auto count = static_cast<size_t>(layout.tensor_count());
  return {.sum = std::vector<HashSum>(count), .parts = std::vector<int>(count), .has_unknown = false};
}

class BitsJudge {
 public:
  BitsJudge(const RunFacts& facts, const ReferenceStep& reference, const std::vector<StepEvidence>& ranks,
            Inspection looked)
      : facts_(facts),
        layout_(*facts.layout),
        reference_(reference),
        ranks_(ranks),
        looked_(looked),
        tensors_(tensors_of(layout_)),
        findings_(Claim::bits, facts) {}

  Verdict judge() && {
    const bool all = looked_ == Inspection::full;
    if (all) judge_uses();
    judge_numbers("loss", &StepEvidence::loss_bits, reference_.loss_bits);
    if (all) judge_micro_batches();
    judge_distinct();
    if (all) judge_slices(HashKind::grad, &StepEvidence::grads);
    judge_numbers("gradient norm", &StepEvidence::norm_bits, reference_.norm_bits);
    if (looked_ != Inspection::meters_only) judge_left();
    judge_finite();
    return std::move(findings_).verdict();
  }

  Suspect first_suspect() const;

 private:
  // What the step left.
  void judge_left() {
    constexpr std::array kKinds{HashKind::param, HashKind::master, HashKind::m, HashKind::v};
    for (const HashKind kind : kKinds) judge_slices(kind, &StepEvidence::state);
    if (looked_ == Inspection::full) judge_replicas(HashKind::grad);
    for (const HashKind kind : kKinds) judge_replicas(kind);
    judge_state();
    judge_padding();
  }
  void judge_uses();
  void judge_uses_of(int rank, const std::vector<HashSum>& units);
  void judge_numbers(std::string_view what, uint64_t StepEvidence::*bits, uint64_t expected);
  void judge_micro_batches();
  void judge_distinct();
  void judge_slices(HashKind kind, std::vector<TensorHash> StepEvidence::*hashes);
  void judge_replicas(HashKind kind);
  void judge_state();
  void judge_padding();
  void judge_finite();

  ByTensor over_ranks(HashKind kind, std::vector<TensorHash> StepEvidence::*hashes) const {
    ByTensor all = no_hashes(layout_);
    for (const StepEvidence& step : ranks_) add_hashes(all, step.*hashes, kind);
    return all;
  }

  ByTensor replica_of(const StepEvidence& step, HashKind kind) const {
    ByTensor all = no_hashes(layout_);
    add_hashes(all, step.replica, kind);
    return all;
  }

  // Whether there is such a state.
  bool kept(HashKind kind) const {
    if (kind == HashKind::master) return has_master(facts_.training.recipe);
    return kind != HashKind::v || has_second_moments(facts_.training.optimizer);
  }

  // Whether every rank holds this state whole.
  bool replicated(HashKind kind) const {
    if (!kept(kind)) return false;
    if (kind == HashKind::param) return facts_.stage.params == theory::Held::whole;
    if (kind == HashKind::grad) return facts_.stage.all_reduces;
    return facts_.stage.optimizer == theory::Held::whole;
  }

  int step() const { return ranks_.front().step; }

  const RunFacts& facts_;
  const Layout& layout_;
  const ReferenceStep& reference_;
  const std::vector<StepEvidence>& ranks_;
  Inspection looked_;
  std::vector<Tensor> tensors_;
  Findings findings_;
};

void BitsJudge::judge_uses() {
  findings_.begin_kind();
  const std::vector<HashSum>& before = used_by_reference(reference_);
  std::vector<HashSum> units;
  for (const UnitLayout& unit : layout_.units()) {
    HashSum sum;
    for (const TensorLayout& tensor : unit.tensors) sum += before[static_cast<size_t>(tensor.index)];
    units.push_back(sum);
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) judge_uses_of(static_cast<int>(rank), units);
}

// In the order in which the rank used them; then whether it read every unit once in every use that needs it.
void BitsJudge::judge_uses_of(int rank, const std::vector<HashSum>& units) {
  const StepEvidence& evidence = ranks_[static_cast<size_t>(rank)];
  const int micro_steps = facts_.training.batching.micro_steps();
  std::set<std::tuple<int, int, int, bool>> missing;
  for (int micro_step = 0; micro_step < micro_steps; ++micro_step) {
    for (const Use& use : uses(layout_)) {
      for (const int read : read_by(layout_, use.unit))
        missing.emplace(micro_step, use.unit, read, use.pass == Pass::backward);
    }
  }
  const auto name = [&](int unit) {
    const bool known = unit >= 0 && unit < layout_.unit_count();
    return known ? layout_.unit(unit).name : fmt::format("unit {}", unit);
  };
  const auto text = [&](int micro_step, int unit, int read, bool backward) {
    const std::string by = read == unit ? "" : fmt::format(", which {} borrows,", name(unit));
    return fmt::format("{}{} in {} of micro-step {}", name(read), by, backward ? "backward" : "forward",
                       micro_step);
  };
  for (const UseHash& use : evidence.used) {
    const std::string where = text(use.micro_step, use.unit, use.read, use.backward);
    if (missing.erase({use.micro_step, use.unit, use.read, use.backward}) == 0) {
      findings_.add(evidence.step, rank, fmt::format("weights of {}: used once more than expected", where));
    } else if (const HashSum& expected = units[static_cast<size_t>(use.read)]; use.hash != expected) {
      findings_.add(evidence.step, rank,
                    fmt::format("weights of {}: {}", where, unequal(use.hash, expected)));
    }
  }
  for (const auto& [micro_step, unit, read, backward] : missing) {
    findings_.add(
        evidence.step, rank,
        fmt::format("weights of {}: never used, expected once", text(micro_step, unit, read, backward)));
  }
}

void BitsJudge::judge_numbers(std::string_view what, uint64_t StepEvidence::*bits, uint64_t expected) {
  findings_.begin_kind();
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const uint64_t got = ranks_[rank].*bits;
    if (got == expected) continue;
    findings_.add(ranks_[rank].step, static_cast<int>(rank),
                  fmt::format("{}: {}", what, unequal(got, expected)));
  }
}

void BitsJudge::judge_micro_batches() {
  findings_.begin_kind();
  const Batching& batching = facts_.training.batching;
  for (size_t at = 0; at < ranks_.size(); ++at) {
    const int rank = static_cast<int>(at);
    const int place = layout_.places().place_of(rank);
    const std::vector<HashSum>& got = ranks_[at].micro_batch_grads;
    if (static_cast<int>(got.size()) != batching.micro_steps()) {
      findings_.add(ranks_[at].step, rank,
                    fmt::format("gradients of got {} micro-batches, expected {}, difference {}", got.size(),
                                batching.micro_steps(),
                                signed_text(static_cast<int64_t>(got.size()) - batching.micro_steps())));
      continue;
    }
    for (int element = 0; element < batching.micro_steps(); ++element) {
      const int number = micro_batch_of(facts_.stage.reduction, batching, place, element);
      const HashSum& expected = reference_.micro_batch_grads[static_cast<size_t>(number)];
      const HashSum& have = got[static_cast<size_t>(element)];
      if (have == expected) continue;
      findings_.add(ranks_[at].step, rank,
                    fmt::format("own gradient of micro-batch {}: {}", number, unequal(have, expected)));
    }
  }
}

// Gradients that do not differ between micro-batches would hide a rank that takes another's: then nothing is
// proved.
void BitsJudge::judge_distinct() {
  findings_.begin_kind();
  const std::vector<HashSum>& grads = reference_.micro_batch_grads;
  for (size_t a = 0; a < grads.size(); ++a) {
    for (size_t b = a + 1; b < grads.size(); ++b) {
      if (grads[a] != grads[b]) continue;
      findings_.add(
          step(),
          fmt::format("micro-batches {} and {} have the same gradient, expected distinct data", a, b));
    }
  }
}

void BitsJudge::judge_slices(HashKind kind, std::vector<TensorHash> StepEvidence::*hashes) {
  findings_.begin_kind();
  const ByTensor all = over_ranks(kind, hashes);
  if (all.has_unknown)
    findings_.add(step(), fmt::format("{} of a tensor that does not exist", name_of(kind)));
  for (const Tensor& t : tensors_) {
    const auto at = static_cast<size_t>(t.tensor->index);
    const HashSum& expected = reference_of(reference_, kind)[at];
    if (all.sum[at] == expected) continue;
    const int64_t slice = t.unit->slice.n;
    findings_.add(
        step(), static_cast<int>(t.tensor->in_unit.begin.n / slice),
        static_cast<int>((t.tensor->in_unit.end.n - 1) / slice),
        fmt::format("{} of {}: {}", name_of(kind), t.tensor->spec.name, unequal(all.sum[at], expected)));
  }
}

void BitsJudge::judge_replicas(HashKind kind) {
  findings_.begin_kind();
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const ByTensor all = replica_of(ranks_[rank], kind);
    const auto add = [&](const std::string& what) {
      findings_.add(ranks_[rank].step, static_cast<int>(rank), what);
    };
    if (all.has_unknown) add(fmt::format("replica of {} of a tensor that does not exist", name_of(kind)));
    for (const Tensor& t : tensors_) {
      const auto at = static_cast<size_t>(t.tensor->index);
      const HashSum& expected = replica_reference_of(reference_, kind)[at];
      if (all.parts[at] == 0) {
        if (replicated(kind) && (!t.unit->frozen || kind == HashKind::param))
          add(fmt::format("replica of {} of {}: none", name_of(kind), t.tensor->spec.name));
      } else if (all.sum[at] != expected) {
        add(fmt::format("replica of {} of {}: {}", name_of(kind), t.tensor->spec.name,
                        unequal(all.sum[at], expected)));
      }
    }
  }
}

// H says no more than its parts have said, unless what is expected contradicts itself.
void BitsJudge::judge_state() {
  if (!findings_.none()) return;
  HashSum all;
  for (const StepEvidence& rank : ranks_) {
    for (const TensorHash& part : rank.state) all += part.hash;
  }
  if (all != reference_.state)
    findings_.add(step(), fmt::format("hash of the whole state: {}", unequal(all, reference_.state)));
}

// Padding reaches no parameter and no hash, but it is stored and sent.
void BitsJudge::judge_padding() {
  findings_.begin_kind();
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (const PaddingWritten& padding : ranks_[rank].padding) {
      const bool known = padding.unit >= 0 && padding.unit < layout_.unit_count();
      findings_.add(ranks_[rank].step, static_cast<int>(rank),
                    fmt::format("padding of {} of unit {}: {} elements are not zero", name_of(padding.kind),
                                known ? layout_.unit(padding.unit).name : std::to_string(padding.unit),
                                padding.elements.n));
    }
  }
}

// Equal to the reference is not enough: a state with NaN or Inf is a failure whoever else has it.
void BitsJudge::judge_finite() {
  findings_.begin_kind();
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const StepEvidence& e = ranks_[rank];
    bool finite = std::isfinite(std::bit_cast<double>(e.loss_bits)) &&
                  std::isfinite(std::bit_cast<double>(e.norm_bits));
    for (const UseHash& h : e.used) finite = finite && h.hash.finite;
    for (const HashSum& h : e.micro_batch_grads) finite = finite && h.finite;
    for (const auto* list : {&e.grads, &e.state, &e.replica}) {
      for (const TensorHash& h : *list) finite = finite && h.hash.finite;
    }
    if (!finite)
      findings_.add(e.step, static_cast<int>(rank), "NaN or Inf in weights, gradients, state, loss or norm");
  }
}

Suspect BitsJudge::first_suspect() const {
  const auto first_unequal = [](const std::vector<HashSum>& expected, const ByTensor& all) -> int {
    for (size_t at = 0; at < all.sum.size(); ++at) {
      if (all.parts[at] > 0 && all.sum[at] != expected[at]) return static_cast<int>(at);
    }
    return -1;
  };
  // A state that should not be there has no elements to compare.
  for (const HashKind kind : {HashKind::grad, HashKind::param, HashKind::master, HashKind::m, HashKind::v}) {
    if (!kept(kind)) continue;
    const auto hashes = kind == HashKind::grad ? &StepEvidence::grads : &StepEvidence::state;
    const int tensor = first_unequal(reference_of(reference_, kind), over_ranks(kind, hashes));
    if (tensor >= 0) return {.found = true, .kind = kind, .tensor = tensor, .replica_of = -1};
  }
  for (const HashKind kind : {HashKind::grad, HashKind::param, HashKind::master, HashKind::m, HashKind::v}) {
    for (size_t rank = 0; kept(kind) && rank < ranks_.size(); ++rank) {
      const int tensor =
          first_unequal(replica_reference_of(reference_, kind), replica_of(ranks_[rank], kind));
      if (tensor < 0) continue;
      return {.found = true, .kind = kind, .tensor = tensor, .replica_of = static_cast<int>(rank)};
    }
  }
  return {};
}

}  // namespace

Verdict judge_bits(const RunFacts& facts, const ReferenceStep& reference,
                   const std::vector<StepEvidence>& ranks, Inspection looked) {
  check_facts(facts, ranks);
  check_reference(facts, reference);
  return BitsJudge(facts, reference, ranks, looked).judge();
}

Suspect first_suspect(const RunFacts& facts, const ReferenceStep& reference,
                      const std::vector<StepEvidence>& ranks) {
  check_facts(facts, ranks);
  check_reference(facts, reference);
  return BitsJudge(facts, reference, ranks, Inspection::full).first_suspect();
}

}  // namespace zp
