// What a run ended on, as plain data: verdicts first, numbers only beside them. Tables, records and reports
// are made from this and nothing else.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/quantities.hpp"
#include "harness/base/vocabulary.hpp"
#include "harness/claim/verdict.hpp"
#include "harness/ledger/evidence.hpp"
#include "kernels/hash.hpp"

namespace zp {

// One timed step.
struct StepSample {
  int round = 0, step = 0;
  double time_s = 0;                       // slowest rank
  bool transfers_timed = false;            // else the two below are not measured
  double exposed_s = 0.0, hidden_s = 0.0;  // of transfers (transport/clock.hpp), mean over ranks
};

struct StageResult {
  std::string stage;
  std::array<Verdict, 4> verdicts;  // by Claim
  HashSum hash;                     // parameters, masters and moments after the last step
  int steps_done = 0;
  std::vector<double> step_times_s;  // raw samples: slowest rank, per step
  // The same steps with all that proving them takes, from one step's beginning to its verdicts, on rank 0.
  std::vector<double> checked_step_times_s;
  std::vector<StepSample> samples;  // of steps that were timed and not looked at meanwhile
  int64_t tokens_per_step = 0;
  Bytes peak;                            // largest step peak over ranks
  std::optional<DeviceEvidence> device;  // last step, of the rank with the most in use; none of the host's
  bool sent_measured = true;             // else what was sent is a library's own affair
  Bytes sent_per_step;                   // largest over ranks, last step: payload of every purpose
  Bytes crossing;                        // of it, to ranks on other nodes
  double passes = 0.0;  // sent for gathers and reductions / ((N-1)/N·S of one pass), S in bytes of the
                        // parameter, or of the gradient on the wire; 0 at N = 1
  std::map<Category, Bytes> held_at_peak, predicted_at_peak;       // of the rank with the largest peak
  std::map<Purpose, Bytes> sent_by_purpose, predicted_by_purpose;  // of rank 0, one step
  std::vector<double> losses;                                      // per step
  std::vector<std::string> choices;  // of rank 0: how a vendor computes each product, a line each
  bool proved() const {
    for (const Verdict& v : verdicts) {
      if (!v.holds()) return false;
    }
    return true;
  }
  // A rate of such a stage is printed nowhere.
  bool refuted() const {
    for (const Verdict& v : verdicts) {
      if (v.finding == Finding::refuted) return true;
    }
    return false;
  }
};

// What was asked for, and where it ran: goes into every record.
struct RunSettings {
  std::string version, contract = "repro-1";
  std::string model, data, data_hash, recipe, wire, transport, algorithm, optimizer = "adamw", device = "cpu",
                                                                          accumulate = "fold";
  std::string device_description;  // what that is, and how messages get there; "" of the host
  std::string route;               // of messages between devices' memories; "": ranks compute on the host
  std::string math = "ordered";
  std::string vendor;  // library, version and device that fix the bits of vendor arithmetic; "": none do
  std::string grade;   // of the claim on bits: exact, ordered, or of that library and device
  int64_t parameters = 0, layers = 0, width = 0, heads = 0, vocabulary = 0;
  bool tied = false;
  int64_t unit_blocks = 1;
  std::vector<std::string> frozen;  // units
  int keep = 0;
  int nodes = 1;
  int ranks = 1, threads = 1, steps = 0, micro_batches = 0;
  int64_t micro_batch_size = 0, sequence = 0;
  int64_t bucket_bytes = 0;  // 0: a unit at once
  int prefetch = 0;
  bool overlap = false;
  uint64_t seed = 1;
  double clip = 0, lr = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0, momentum = 0, timeout_s = 0;
  std::string injected;      // "" or the --inject text: the record then says INJECTED
  std::string golden;        // the file that bits are judged by; "": by references that were run
  std::string write_golden;  // the file that is to hold them; "": none
  std::string hash_case;     // the sentence that says which case of the hash's validity holds
  std::string host, compiler, mpi, cpu;
  std::string nccl;                    // its version; "" where it carries no messages
  std::string nccl_log;                // its subsystems that wrote a log; "": none that was read
  std::vector<std::string> nccl_said;  // lines of it
  // Filled by describe_host (report/environment.hpp).
  std::string os;
  int cores = 0;                           // that this process may use
  Bytes memory_available;                  // at start
  std::map<std::string, std::string> env;  // whitelisted names only
  std::string start_time, end_time;        // UTC, ISO 8601
  std::vector<std::string> args;           // as typed, without the program's name
};

struct RunResult {
  RunSettings settings;
  std::vector<HashSum> reference_hash;  // final hash of each distinct reference
  double reference_time_s = 0;
  bool golden_written = false;
  std::vector<StageResult> stages;
  std::string error;       // the line of an error that ended the run early; "" where there was none
  Exit exit = Exit::pass;  // lowest code of the refuted claims, else pass
};

}  // namespace zp
