// What MPI says of itself is tried before it is believed.
#include "harness/suite/message_way.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "harness/transport/aware.hpp"

namespace zp {
namespace {

// What keeps this rank's MPI from being given a device's memory, by its own words; "": nothing.
std::string said_by_mpi() {
  const std::optional<bool> aware = mpi_says_gpu_aware();
  if (!aware) return "does not say whether it is GPU-aware";
  return *aware ? "" : "says that it is not GPU-aware";
}

// On messages of their own, so that what fails or never ends is left behind with them.
std::string found_by_trial(const Job& job, int local_rank) {
  std::optional<std::string> fault;
  try {
    transport_named("mpi").run(job.world, job.timeout_s, [&](Endpoint& endpoint) {
      const std::unique_ptr<Engine> engine = job.backend->make_engine(local_rank, Fill::zero, job.timeout_s);
      const std::unique_ptr<Link> link = engine->make_link(*endpoint.link, Route::gpu_aware);
      fault = fault_in_reach(*link, engine->device(), *endpoint.control, job.timeout_s);
    });
  } catch (const Error& error) {
    if (error.code() != Exit::transport && error.code() != Exit::timeout) throw;
    return error.what();
  }
  return fault.value_or("");
}

// Why no rank gives MPI a device's memory; "": every rank does.
std::string why_not_aware(const Job& job, int local_rank, Control& control) {
  const std::vector<std::string> said = control.all_gather(said_by_mpi());
  const auto first = std::ranges::find_if(said, [](const std::string& text) { return !text.empty(); });
  if (first != said.end()) {
    const bool all = std::ranges::count(said, *first) == std::ssize(said);
    return all ? "MPI " + *first : fmt::format("MPI of rank {} {}", first - said.begin(), *first);
  }
  if (job.world == 1) return "one rank has nobody to show whether MPI is GPU-aware";
  for (const std::string& found : control.all_gather(found_by_trial(job, local_rank))) {
    if (!found.empty()) return "MPI says that it is GPU-aware, but in a trial: " + found;
  }
  return "";
}

}  // namespace

MessageWay message_way(const Job& job, int local_rank, Control& control) {
  if (job.carried) return {Route::carried, "messages are carried by NCCL " + job.settings.nccl};
  if (job.backend == &cpu_backend()) return {};
  const std::string staged = "messages are staged through pinned memory";
  if (job.settings.transport != "mpi") return {Route::staged, staged};
  if (job.mpi_buffers == MpiBuffers::staged) return {Route::staged, staged + " (--mpi-buffers staged)"};
  const std::string why = why_not_aware(job, local_rank, control);
  if (!why.empty()) return {Route::staged, fmt::format("{} ({})", staged, why)};
  return {Route::gpu_aware,
          "messages are given to MPI where they lie (MPI says that it is GPU-aware, and a trial shows it)"};
}

}  // namespace zp
