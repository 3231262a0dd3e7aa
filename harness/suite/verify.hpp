// zeroproof verify: the four claims for every stage asked for, on every rank, after every step; then one
// table. Options arrive checked one by one (suite/command_line); what depends on the ranks that really run is
// checked here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/base/vocabulary.hpp"
#include "harness/layout/training.hpp"
#include "harness/model/model.hpp"
#include "harness/report/record.hpp"
#include "harness/suite/golden.hpp"
#include "harness/transport/carrier.hpp"

namespace zp {

// How messages of GPUs' memory go through MPI.
enum class MpiBuffers {
  automatic,  // where they lie, if MPI says that it is GPU-aware and a trial shows it; else staged
  staged,
};

struct VerifyOptions {
  int ranks_per_node = 0;           // 0: nodes are found by shared memory
  int ranks = 0;                    // 0: not given (the launcher's, else kDefaultRanks)
  std::vector<std::string> stages;  // names, in the order asked for; empty: all
  ModelConfig model;                // shapes of a preset, or as given
  std::string data;                 // path of a file; "": the seeded synthetic corpus
  int steps = 3;
  int micro_batches = 0;         // M, over the whole job; 0: the default for the number of ranks
  int64_t micro_batch_size = 1;  // sequences
  int64_t sequence = 0;          // tokens; 0: the model's positions
  std::string recipe = "bf16-fp32grad";
  GradientWire wire = GradientWire::as_stored;
  double clip = Training{}.clip;  // 0: no clipping
  float lr = Training{}.lr, beta1 = Training{}.beta1, beta2 = Training{}.beta2;
  float weight_decay = Training{}.weight_decay;
  Method optimizer = Training{}.optimizer;
  float momentum = Training{}.momentum;
  Accumulate accumulate = Accumulate::fold;
  std::string transport;       // "": mpi under a launcher, else threads
  std::string device = "cpu";  // the stages'; the reference's is the host, but for vendor arithmetic
  MpiBuffers mpi_buffers = MpiBuffers::automatic;
  CarrierLog carrier_log = CarrierLog::calls;
  Math math = Math::ordered;
  std::optional<Algorithm> algorithm;  // none: default_algorithm()
  Schedule schedule;
  int keep = 0;     // zero3: units that stay gathered from forward to backward
  int threads = 0;  // of kernels, per rank; 0: cores / local ranks, at least 1
  double timeout_s = 60.0;
  uint64_t seed = 1;
  std::string out;  // JSON Lines file, already checked; "": none
  Existing existing = Existing::refuse;
  std::optional<GoldenFile> golden;  // judges bits; none: a reference is run
  std::string write_golden;          // file for the reference's bits, already checked; "": none
  std::string dump;                  // folder for every stage's numbers, already checked; "": none
  std::vector<std::string> inject;   // KIND:key=value,… as given
  std::vector<std::string> args;     // the command line, for the record
};

inline constexpr int kDefaultRanks = 4;

// Runs on every rank (process); only the process of rank 0 prints. Returns the exit code, the same on every
// rank. Throws Error for what cannot run.
Exit verify(const VerifyOptions& options);

}  // namespace zp
