// A job on all of its ranks.
#include "harness/suite/job_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "harness/base/archive.hpp"
#include "harness/report/environment.hpp"
#include "harness/suite/launched.hpp"
#include "harness/suite/message_way.hpp"

namespace zp {
namespace {

// What ranks must have in common before they begin; none where they have.
std::optional<Error> disagreement(const std::string& agreement, Control& control) {
  const std::vector<std::string> all = control.all_gather(agreement);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto [a, b] = std::ranges::mismatch(all[0], all[rank]);
    const auto at = static_cast<size_t>(a - all[0].begin());
    const size_t from = all[0].rfind(',', at) == std::string::npos ? 0 : all[0].rfind(',', at) + 2;
    const auto part = [from](const std::string& text) {
      const std::string rest = text.substr(std::min(from, text.size()));
      return rest.substr(0, std::min(rest.find(','), size_t{80}));
    };
    return Error(Exit::usage,
                 fmt::format("ranks were started with different options: rank 0 has '{}', rank {} has '{}'",
                             part(all[0]), rank, part(all[rank])));
  }
  return std::nullopt;
}

// Kernel threads that every rank's host has: hosts may differ in cores, ranks of a run must not.
int least_threads(int mine, Control& control) {
  int least = mine;
  for (const std::string& text : control.all_gather(std::to_string(mine)))
    least = std::min(least, std::stoi(text));
  return least;
}

// Ranks of one node stand furthest apart. Nodes are as the user says, or as memory is shared.
Places places_on_nodes(const Job& job, Endpoint& endpoint) {
  std::vector<int> node_of;
  for (const std::string& text : endpoint.control->all_gather(std::to_string(endpoint.first_of_node)))
    node_of.push_back(std::stoi(text));
  for (size_t rank = 0; job.ranks_per_node > 0 && rank < node_of.size(); ++rank) {
    node_of[rank] = static_cast<int>(rank) / job.ranks_per_node;
  }
  if (job.algorithm != Algorithm::native) return Places::by_node(node_of);
  // A library knows ranks only.
  Places places = Places::in_rank_order(job.world);
  places.node_of = node_of;
  return places;
}

void find_local(Endpoint& endpoint, Standing& standing) {
  const std::string mine = std::to_string(endpoint.first_of_node);
  const std::vector<std::string> first = endpoint.control->all_gather(mine);
  standing.local_rank =
      static_cast<int>(std::count(first.begin(), first.begin() + endpoint.control->rank(), mine));
  standing.local_ranks = static_cast<int>(std::ranges::count(first, mine));
}

// NCCL's messages are for others of its version.
std::optional<Error> other_nccl(const Job& job, Control& control) {
  if (!job.carried) return std::nullopt;
  const std::vector<std::string> all = control.all_gather(job.settings.nccl);
  const auto other = std::ranges::find_if(all, [&](const std::string& text) { return text != all[0]; });
  if (other == all.end()) return std::nullopt;
  return Error(Exit::unavailable,
               fmt::format("--transport nccl: rank 0 has NCCL {}, rank {} has NCCL {}, and ranks that carry "
                           "messages to each other need one version",
                           all[0], other - all.begin(), *other));
}

// NCCL wants a GPU for every rank.
std::optional<Error> shared_gpu(const Job& job, int local_rank, Control& control) {
  if (!job.carried) return std::nullopt;
  const std::vector<DeviceFacts> gpus = job.backend->devices();
  const DeviceFacts& mine = gpus[static_cast<size_t>(local_rank) % gpus.size()];
  const std::vector<std::string> all = control.all_gather(mine.uuid);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto first = static_cast<size_t>(std::ranges::find(all, all[rank]) - all.begin());
    if (first == rank) continue;
    return Error(Exit::unavailable,
                 fmt::format("--transport nccl: ranks {} and {} are on one GPU, and NCCL wants one for each "
                             "rank; ranks can share a GPU with --transport {}",
                             first, rank, launched_world() > 0 ? "mpi" : "threads"));
  }
  return std::nullopt;
}

}  // namespace

Exit exit_of(const std::vector<StageResult>& stages) {
  Exit exit = Exit::pass;
  for (const StageResult& stage : stages) {
    for (const Verdict& verdict : stage.verdicts) {
      if (verdict.finding != Finding::refuted) continue;
      const Exit code = exit_of(verdict.claim);
      if (exit == Exit::pass || code < exit) exit = code;
    }
  }
  return exit;
}

std::optional<Error> JobRun::begin(const std::string& agreement, Endpoint& endpoint) {
  Control& control = *endpoint.control;
  if (auto problem = disagreement(agreement, control)) return problem;
  if (auto problem = other_nccl(job_, control)) return problem;
  standing_.threads = least_threads(job_.threads, control);
  standing_.places = places_on_nodes(job_, endpoint);
  find_local(endpoint, standing_);
  if (auto problem = shared_gpu(job_, standing_.local_rank, control)) return problem;
  const MessageWay way = message_way(job_, standing_.local_rank, control);
  standing_.route = way.route;
  if (control.rank() != 0) return std::nullopt;
  if (!way.words.empty()) {
    result_.settings.route = name_of(way.route);
    result_.settings.device_description += "; " + way.words;
  }
  result_.settings.threads = standing_.threads;
  result_.settings.nodes = standing_.places.nodes();
  return std::nullopt;
}

std::vector<ReferenceRun> JobRun::run_references(Control& control, Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<ReferenceRun> references =
      zp::run_references(job_, control, [&](const std::string& text) { progress.show(text); });
  if (control.rank() != 0) return references;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  result_.reference_time_s = took.count();
  for (const ReferenceRun& reference : references)
    result_.reference_hash.push_back(reference.steps.back().state);
  return references;
}

StageRun JobRun::stage_run(const StageRow& row, const std::vector<ReferenceRun>& references,
                           Endpoint& endpoint) {
  const Arithmetic arithmetic = job_.arithmetic_of(row);
  StageRun run = job_.stage_run(row);
  run.kernels.threads = standing_.threads;
  run.local_rank = standing_.local_rank;
  run.local_ranks = standing_.local_ranks;
  run.collectives.places = standing_.places;
  run.collectives.route = standing_.route;
  run.reference = &reference_of(references, arithmetic).steps;
  if (job_.golden.empty()) {
    run.replay = [&job = job_, arithmetic, &endpoint](int step, HashKind kind, int tensor) {
      return replay(job, arithmetic, *endpoint.control, step, kind, tensor);
    };
  }
  if (!job_.injections.empty()) {
    run.faults =
        make_faults(job_.injections, row.name(), endpoint.link->rank(), job_.training.wire_type(), fired_);
  }
  return run;
}

std::optional<Error> JobRun::unfired(Control& control) const {
  if (job_.injections.empty()) return std::nullopt;
  std::vector<int> mine;
  for (const auto& count : fired_) mine.push_back(*count);
  std::vector<int64_t> total(mine.size());
  for (const std::string& text : control.all_gather(to_bytes(mine))) {
    const auto theirs = from_bytes<std::vector<int>>(text);
    for (size_t i = 0; i < total.size(); ++i) total[i] += theirs[i];
  }
  const auto never = std::ranges::find(total, 0);
  if (never == total.end()) return std::nullopt;
  return Error(Exit::usage,
               "--inject " + job_.injections[static_cast<size_t>(never - total.begin())].text +
                   ": the fault never fired; name a step, stage, rank or unit where it can strike");
}

void JobRun::stamp() {
  RunSettings& settings = result_.settings;
  settings.end_time = utc_now();
  if (!job_.carried) return;
  settings.nccl_log = job_.backend->carrier_log();
  settings.nccl_said = job_.backend->carrier_words();
}

Exit JobRun::shared_exit(Control& control) const {
  const bool first = control.rank() == 0;
  return static_cast<Exit>(
      std::stoi(control.broadcast(first ? std::to_string(static_cast<int>(result_.exit)) : "")));
}

Exit run_job(const std::string& command, const VerifyOptions& options,
             const std::function<void(const Job&)>& begin, const JobBody& body,
             const std::function<void(const std::optional<Error>&)>& show) {
  const TransportRow& row = transport_named(options.transport);
  std::optional<Job> job;
  std::optional<Error> problem;
  try {
    job = resolve(options, options.ranks, row.name);
  } catch (const Error& error) {
    problem = error;
  }
  // What only one process finds wrong must end all of them; threads share one resolution.
  if (problem && (row.name == "threads" || (row.carried && launched_world() == 0))) throw *problem;
  if (job) begin(*job);
  std::atomic<bool> first = false;
  std::mutex mutex;
  Exit exit = Exit::internal;
  std::optional<Error> error;
  try {
    row.run(options.ranks, options.timeout_s, [&](Endpoint& endpoint) {
      if (endpoint.control->rank() == 0) first = true;
      std::variant<Exit, Error> outcome = Exit::internal;
      if (const auto found = shared_problem(command, problem, *endpoint.control)) {
        outcome = *found;
      } else {
        outcome = body(*job, endpoint);
      }
      const std::lock_guard lock(mutex);
      if (const auto* failed = std::get_if<Error>(&outcome)) error = *failed;
      if (const auto* code = std::get_if<Exit>(&outcome)) exit = *code;
    });
  } catch (const Error& thrown) {
    error = thrown;
  }
  if (first) show(error);
  if (error) throw *error;
  return exit;
}

}  // namespace zp
