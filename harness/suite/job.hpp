// What a verify run amounts to once the number of ranks is known: every number resolved, the same on every
// rank.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/result.hpp"
#include "harness/suite/inject.hpp"
#include "harness/suite/stage_run.hpp"
#include "harness/suite/verify.hpp"

namespace zp {

struct Job {
  std::vector<const StageRow*> rows;
  ModelConfig model;
  BatchShape shape;
  Training training;
  std::optional<Corpus> corpus;  // none for the synthetic model
  Algorithm algorithm = Algorithm::direct;
  bool carried = false;  // messages are the device's own library's (transport nccl)
  MpiBuffers mpi_buffers = MpiBuffers::automatic;
  const Backend* backend = &cpu_backend();
  Math math = Math::ordered;
  int world = 1;
  int threads = 1;            // of kernels, per rank
  int threads_asked = 0;      // as typed; 0: none
  int ranks_per_node = 0;     // as typed; 0: none
  int reference_threads = 1;  // of kernels, while rank 0 runs the reference
  int steps = 1;
  double timeout_s = 60.0;
  std::string dump;  // folder; "": none
  std::vector<Injection> injections;
  std::vector<ReferenceRun> golden;  // of a golden file; none: references are run
  std::string golden_digest;         // of that file; "": none
  RunSettings settings;

  const Corpus* tokens() const { return corpus ? &*corpus : nullptr; }
  Arithmetic arithmetic_of(const StageRow& row) const;  // canonical
  StageRun stage_run(const StageRow& row) const;        // without route, faults, reference and replay
  // Where the reference runs: on the host, unless a vendor's arithmetic is judged by itself.
  const Backend& reference_backend() const { return math == Math::vendor ? *backend : cpu_backend(); }
  ReferenceConfig reference_config(const Arithmetic& arithmetic) const;
};

// Throws (usage, unavailable) with one line for what cannot run with `world` ranks, such as a run that does
// not fit the memory that is free on this host, with the ledger's figure.
Job resolve(const VerifyOptions& options, int world, std::string_view transport);

// Everything that must agree between ranks, as one text.
std::string agreement_of(const Job& job);

// The sentence that says where the final hash holds (design 3.4).
std::string hash_case(const Job& job);

}  // namespace zp
