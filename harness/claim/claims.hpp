// Theory against Evidence. Every rank judges the evidence of all ranks, so that all reach the same verdicts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/claim/verdict.hpp"
#include "harness/layout/layout.hpp"
#include "harness/layout/training.hpp"
#include "harness/ledger/evidence.hpp"
#include "harness/theory/stage.hpp"
#include "harness/trainer/reference.hpp"

namespace zp {

// What is known of a run beforehand; plain numbers only.
struct RunFacts {
  theory::Stage stage;
  const Layout* layout = nullptr;
  Training training;
  Algorithm algorithm = Algorithm::direct;
  Route route = Route::staged;         // of messages between devices' memories
  std::map<Category, Bytes> constant;  // activations, workspace, data: held from init to end
  std::map<std::string, Work>
      work_per_micro_batch;  // the model's kernels: theory's closed form for one micro-batch
};

// One step of every rank (by rank) against the reference. Each returns proved or refuted; bytes are not
// measured where a library's own collectives send them, and memory is not where a device's pool says nothing
// that could be compared with the ledger, unless what was measured is refuted. Evidence lines name step,
// stage, rank and place, and what is off: expected, got, difference. `looked`: how much of the step the
// evidence is to hold. What it may leave out proves nothing by itself: a later step of the same ranks that is
// looked at does, whose state follows from this one's.
Verdict judge_bits(const RunFacts& facts, const ReferenceStep& reference,
                   const std::vector<StepEvidence>& ranks, Inspection looked = Inspection::full);
Verdict judge_bytes(const RunFacts& facts, const std::vector<StepEvidence>& ranks);  // logs included
Verdict judge_memory(const RunFacts& facts, const std::vector<StepEvidence>& ranks);
Verdict judge_work(const RunFacts& facts, const std::vector<StepEvidence>& ranks);

// What a rank sent to ranks on other nodes.
Bytes crossing_bytes(const StepEvidence& step, const Places& places, int rank);

// The first state that differs from the reference in judge_bits' order, for a comparison element by element.
struct Suspect {
  bool found = false;
  HashKind kind = HashKind::param;
  int tensor = 0;
  int replica_of = -1;  // rank whose whole replica is wrong; -1: the slices that ranks answer for
};
Suspect first_suspect(const RunFacts& facts, const ReferenceStep& reference,
                      const std::vector<StepEvidence>& ranks);

// Proved stays proved only with proved; a refutation outranks not measured. Evidence of both, up to the
// limit.
void merge(Verdict& into, const Verdict& other);

}  // namespace zp
